//! Against sockets that do exactly what a test says, byte by byte.

use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::{Frame, Msg, Request};

/// Longer than anything here takes on the slowest machine.
const LONG: Duration = Duration::from_secs(20);

/// A line and the other end of it.
async fn pair() -> (Line, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let (line, accepted) = tokio::join!(Line::connect(&addr), listener.accept());
    let server = accepted.unwrap().0;
    server.set_nodelay(true).unwrap();
    (line.unwrap(), server)
}

fn ping() -> Message {
    Message::new(&rawdoc! { "ping": 1, "$db": "admin" })
}

fn body(number: i32) -> RawDocumentBuf {
    rawdoc! { "number": number, "ok": 1.0 }
}

fn reply(body: &RawDocumentBuf, response_to: i32) -> Vec<u8> {
    Msg::new(body.clone()).encode(99, response_to).unwrap().bytes().to_vec()
}

async fn next_id(server: &mut TcpStream) -> i32 {
    let frame = Frame::read(server).await.unwrap().unwrap();
    assert_eq!(Request::decode(&frame).unwrap().name, "ping");
    frame.header().request_id
}

/// One exchange in which the server answers a request with these bytes and then closes the connection.
async fn answered(bytes: impl FnOnce(i32) -> Vec<u8>) -> (Line, Result<(), LineError>) {
    let (mut line, mut server) = pair().await;
    let serve = async {
        let id = next_id(&mut server).await;
        server.write_all(&bytes(id)).await.unwrap();
        drop(server);
    };
    let mut message = ping();
    let both = async { tokio::join!(line.exchange(&mut message), serve).0 };
    let result = timeout(LONG, both).await.expect("it comes to an end");
    (line, result)
}

#[tokio::test]
async fn a_reply_that_is_cut_at_any_byte_is_lost_and_was_sent() {
    let whole = reply(&body(7), 1);
    for end in 0..whole.len() {
        let part = whole[..end].to_vec();
        let (mut line, result) = answered(move |_| part).await;
        let error = result.unwrap_err();
        assert!(matches!(error, LineError::Lost(_)) && error.was_sent(), "{end}: {error}");
        assert!(line.has_sent() && !line.is_ready(), "{end}");
        let again = line.exchange(&mut ping()).await.unwrap_err();
        assert!(matches!(again, LineError::NotSent(_)), "{end}: {again}");
    }
    let (line, result) = answered(move |_| whole).await;
    assert!(result.is_ok() && line.reply() == body(7).as_bytes());
}

#[tokio::test]
async fn a_reply_may_come_in_many_pieces_and_be_longer_than_the_inbox() {
    let long = rawdoc! { "text": "x".repeat(5 * INBOX_BYTES), "ok": 1.0 };
    for (body, step) in [(body(7), 1), (long, 9_973)] {
        let (mut line, mut server) = pair().await;
        let sent = body.clone();
        let serve = async {
            for _ in 0..2 {
                let id = next_id(&mut server).await;
                for piece in reply(&sent, id).chunks(step) {
                    server.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        };
        let ask = async {
            for _ in 0..2 {
                line.exchange(&mut ping()).await.unwrap();
                assert_eq!(line.reply(), body.as_bytes());
            }
        };
        timeout(LONG, async { tokio::join!(ask, serve) }).await.unwrap();
    }
}

#[tokio::test]
async fn a_reply_to_another_request_is_never_taken() {
    for wrong in [0, 2, -1] {
        let (mut line, result) = answered(move |_| reply(&body(7), wrong)).await;
        let error = result.unwrap_err();
        assert!(matches!(error, LineError::NotAReply(_)) && error.was_sent(), "{error}");
        assert!(!line.is_ready());
    }
}

#[tokio::test]
async fn of_two_replies_the_first_is_taken_and_nothing_after_it() {
    let (mut line, result) = answered(|id| [reply(&body(1), id), reply(&body(2), id + 1)].concat()).await;
    assert!(result.is_ok());
    assert_eq!(line.reply(), body(1).as_bytes());
    assert!(!line.is_ready(), "what was not asked for spoils the line");
    assert!(matches!(line.exchange(&mut ping()).await, Err(LineError::NotSent(_))));
}

#[tokio::test]
async fn a_reply_that_comes_unasked_later_spoils_the_line() {
    let (mut line, mut server) = pair().await;
    let serve = async {
        let id = next_id(&mut server).await;
        server.write_all(&reply(&body(1), id)).await.unwrap();
    };
    let mut message = ping();
    let (first, ()) = tokio::join!(line.exchange(&mut message), serve);
    first.unwrap();
    server.write_all(&reply(&body(2), 2)).await.unwrap();
    line.stream.readable().await.unwrap();
    let error = line.exchange(&mut ping()).await.unwrap_err();
    assert!(matches!(error, LineError::NotSent(_)), "{error}");
    assert!(!line.has_sent());
}

#[tokio::test]
async fn what_is_no_reply_is_refused() {
    let flaws: [fn(&mut Vec<u8>); 8] = [
        |bytes| bytes[0] = 15,
        |bytes| bytes[0] = 20,
        |bytes| bytes[3] = 0x7f,
        |bytes| bytes[12] = 0xd4,
        |bytes| bytes[16] = 4,
        |bytes| bytes[16] = 2,
        |bytes| bytes[20] = 1,
        |bytes| bytes[21] += 1,
    ];
    for (index, flaw) in flaws.into_iter().enumerate() {
        let (_, result) = answered(move |id| {
            let mut bytes = reply(&body(7), id);
            flaw(&mut bytes);
            bytes
        })
        .await;
        let error = result.unwrap_err();
        assert!(matches!(error, LineError::NotAReply(_)), "flaw {index}: {error}");
    }
}

#[tokio::test]
async fn a_checksum_is_skipped() {
    let (line, result) = answered(|id| {
        let mut bytes = reply(&body(7), id);
        bytes[16] |= 1;
        bytes.extend([1, 2, 3, 4]);
        bytes[0] += 4;
        bytes
    })
    .await;
    assert!(result.is_ok());
    assert_eq!(line.reply(), body(7).as_bytes());
}

#[tokio::test]
async fn a_connection_that_was_closed_before_is_not_sent_to() {
    let (mut line, server) = pair().await;
    drop(server);
    line.stream.readable().await.unwrap();
    let error = line.exchange(&mut ping()).await.unwrap_err();
    assert!(matches!(error, LineError::NotSent(_)) && !error.was_sent(), "{error}");
    assert!(!line.has_sent());
}

#[tokio::test]
async fn nobody_listening_is_an_error_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    drop(listener);
    let refused = timeout(LONG, Line::connect(&addr)).await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

/// A request that is larger than all buffers on the way: the server reads a part of it and closes. It cannot
/// have understood it.
#[tokio::test]
async fn a_request_of_which_a_part_never_left_was_not_sent() {
    let (mut line, mut server) = pair().await;
    let mut message = Message::with_list(&rawdoc! { "insert": "c", "$db": "d" }, "documents");
    message.list().resize(40_000_000, 0);
    let serve = async {
        let mut some = vec![0; 100_000];
        server.read_exact(&mut some).await.unwrap();
        drop(server);
    };
    let both = async { tokio::join!(line.exchange(&mut message), serve).0 };
    let error = timeout(LONG, both).await.unwrap().unwrap_err();
    assert!(matches!(error, LineError::NotSent(_)), "{error}");
    assert!(!line.has_sent() && !line.is_ready());
}

/// What a deadline does: the exchange is dropped, and the line knows how far it came.
#[tokio::test]
async fn a_dropped_exchange_leaves_a_line_that_knows_whether_the_request_left() {
    let short = Duration::from_millis(50);
    let (mut line, mut server) = pair().await;
    assert!(timeout(short, line.exchange(&mut ping())).await.is_err());
    assert!(line.has_sent() && !line.is_ready());
    let id = next_id(&mut server).await;
    server.write_all(&reply(&body(1), id)).await.unwrap();
    // The late reply reaches nobody.
    assert!(matches!(line.exchange(&mut ping()).await, Err(LineError::NotSent(_))));

    let (mut line, _server) = pair().await;
    let mut message = Message::with_list(&rawdoc! { "insert": "c", "$db": "d" }, "documents");
    message.list().resize(40_000_000, 0);
    assert!(timeout(short, line.exchange(&mut message)).await.is_err());
    assert!(!line.has_sent() && !line.is_ready());
}

#[tokio::test]
async fn the_greeting_says_who_we_are() {
    let (mut line, mut server) = pair().await;
    let serve = async {
        let frame = Frame::read(&mut server).await.unwrap().unwrap();
        let request = Request::decode(&frame).unwrap();
        let answer = rawdoc! { "minWireVersion": 0, "maxWireVersion": 17, "ok": 1.0 };
        server.write_all(request.reply(&answer, 1).unwrap().unwrap().bytes()).await.unwrap();
        request
    };
    let (greeted, request) =
        timeout(LONG, async { tokio::join!(line.greet("mongosoak"), serve) }).await.unwrap();
    greeted.unwrap();
    assert_eq!((request.name.as_str(), request.database.as_str()), ("hello", "admin"));
    let client = request.body.get_document("client").unwrap();
    let application = client.get_document("application").unwrap();
    assert_eq!(application.get_str("name").unwrap(), "mongosoak");
    assert!(line.is_ready());
}
