use std::os::unix::fs::PermissionsExt;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

use super::*;

#[tokio::test]
async fn a_socket_works_in_a_directory_whose_path_is_longer_than_an_address() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("d".repeat(200));
    std::fs::create_dir(&dir).unwrap();
    let server = Server::bind(&dir).unwrap();
    let mode = std::fs::metadata(dir.join(SOCKET)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(server);
    assert!(!dir.join(SOCKET).exists(), "it is removed");
    assert!(matches!(ask(&dir, &Request::Status).await, Err(CannotAsk::NotThere(_))));
}

#[tokio::test]
async fn a_dead_tester_is_called_dead() {
    let dir = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(dir.path().join(SOCKET)).unwrap());
    assert!(matches!(ask(dir.path(), &Request::Status).await, Err(CannotAsk::Dead(_))));
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
    let asked = ask(dir.path(), &Request::Status);
    let answered = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"hello\n").await.unwrap();
        // Open until the other side has read it.
        stream
    };
    let (asked, _stream) = tokio::join!(asked, answered);
    assert!(matches!(asked, Err(CannotAsk::Other { .. })), "{asked:?}");
}

#[tokio::test]
async fn a_line_is_bounded() {
    let long = vec![b'x'; usize::try_from(MAX_LINE).unwrap() + 10];
    assert!(line(long.as_slice()).await.is_err());
    assert!(line(b"".as_slice()).await.is_err());
    assert!(line(b"torn".as_slice()).await.is_err());
    assert_eq!(line(b"whole\nmore\n".as_slice()).await.unwrap(), "whole\n");
}
