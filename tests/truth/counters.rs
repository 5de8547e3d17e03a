//! Keys and counts that do not fit 32 bits.

use crate::support::fake_server::FakeServer;
use crate::support::run::{Run, number};
use crate::support::script::Script;

/// Twenty documents that begin just below 2^31 or 2^32 are loaded, read, changed and added to by both engines;
/// all are there in the end, under the right keys, and each once.
async fn across(first: u64) {
    let server = FakeServer::start(Script::default());
    let scenario = format!(
        r#"
        name = "across"
        duration = "2s"
        warmup = "0s"
        [dataset]
        documents = 20
        first = {first}
        [[workload]]
        name = "by-driver"
        workers = 2
        rate = "100/s"
        op = {{ mix = {{ insert = 1, read = 1, update = 1, scan = 1, aggregate = 1 }} }}
        [[workload]]
        name = "by-wire"
        workers = 2
        rate = "100/s"
        engine = "wire"
        distribution = "latest"
        op = {{ mix = {{ insert = 1, read = 1, replace = 1, scan = 1, aggregate = 1 }} }}
        "#
    );
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    let report = ended.report();
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    for work in report["workloads"].as_array().unwrap() {
        assert_eq!((number(&work["failed"]), number(&work["unknown"])), (0, 0), "{work}");
    }
    let ids: Vec<u64> = server.documents("soak.docs", |documents| {
        documents.keys().map(|id| id.to_string().parse().unwrap()).collect()
    });
    assert!((first..first + 20).eq(ids.iter().copied().take(20)), "{:?}", &ids[..20]);
    let acknowledged = number(&report["ledger"]["acknowledged"]);
    assert!(acknowledged > 30, "{report}");
    assert_eq!(ids.len() as u64, acknowledged);
    let books = &report["ledger"];
    assert_eq!((number(&books["present"]), number(&books["checked"])), (acknowledged, acknowledged));
}

#[tokio::test]
async fn keys_go_past_two_to_the_thirty_one() {
    across(2_147_483_640).await;
}

#[tokio::test]
async fn keys_go_past_two_to_the_thirty_two() {
    across(4_294_967_290).await;
}

/// Another first key is another data set.
#[tokio::test]
async fn a_load_that_begins_elsewhere_is_refused_with_both_keys() {
    let server = FakeServer::start(Script::default());
    let scenario = |first: u64| {
        format!(
            "name = \"elsewhere\"\nduration = \"1s\"\nwarmup = \"0s\"\nseed = 7\n[dataset]\n\
             documents = 20\nfirst = {first}\n[[workload]]\nname = \"w\"\nop = \"insert\"\n"
        )
    };
    let ended = Run::new(&scenario(4_294_967_290), &server.uri()).finish().await;
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    let other = Run::new(&scenario(5), &server.uri()).finish().await;
    assert_eq!(other.code, 5, "{}", other.printed());
    assert!(
        other.printed().contains("first = 4294967290 is loaded, first = 5 is asked for"),
        "{}",
        other.printed()
    );
}
