use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use super::*;

const EVENTS: &str = "{\"run_s\":1.0,\"t_s\":null,\"at\":\"\",\"event\":\"phase\",\"phase\":\"measure\"}\n";
const FAILURE: &str = "{\"run_s\":2.0,\"t_s\":1.0,\"at\":\"\",\"event\":\"failure\",\"what\":\"zerstört\"}\n";
const TIMELINE: &str =
    "t_s,workload,ok,failed,unknown,missed,workers_alive,late_starts\n0,wörk,5,0,0,0,1,0\n";
const GAPS: &str = "workload,from_s,to_s\nwörk,0.250000,0.500000\n";

fn run_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("manifest.json", "{}"),
        ("plan.json", "{\"faults\":[]}"),
        ("events.jsonl", EVENTS),
        ("timeline.csv", TIMELINE),
        ("gaps.csv", GAPS),
    ];
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// Cuts the last line of a file at each of its bytes. What is read must be what is read without the line, until
/// all of the line is there.
#[track_caller]
fn cut_everywhere<T: PartialEq + std::fmt::Debug>(name: &str, last: &str, what: impl Fn(&RunRecord) -> T) {
    let dir = run_directory();
    let path = dir.path().join(name);
    let whole = std::fs::read_to_string(&path).unwrap();
    let read = |last: &[u8]| {
        std::fs::write(&path, [whole.as_bytes(), last].concat()).unwrap();
        what(&directory(dir.path()).unwrap_or_else(|error| panic!("{} bytes: {error}", last.len())))
    };
    let without = read(b"");
    for length in 1..last.len() {
        assert_eq!(read(&last.as_bytes()[..length]), without, "{name} cut after {length} bytes");
    }
    assert_ne!(read(last.as_bytes()), without, "{name}: the whole line counts");
}

#[test]
fn a_line_that_is_cut_anywhere_is_passed_over() {
    cut_everywhere("events.jsonl", FAILURE, |record| record.failures.clone());
    cut_everywhere("timeline.csv", "1,wörk,5,0,0,0,1,12345\n", |record| {
        (record.recording.workloads[0].seconds.clone(), record.tester.late_starts)
    });
    cut_everywhere("gaps.csv", "wörk,0.500000,18.123456\n", |r| r.recording.workloads[0].gaps.clone());
}

#[test]
fn a_number_that_is_cut_would_read_like_a_whole_one() {
    let dir = run_directory();
    std::fs::write(dir.path().join("gaps.csv"), format!("{GAPS}wörk,0.500000,1")).unwrap();
    assert_eq!(directory(dir.path()).unwrap().recording.workloads[0].gaps.len(), 1);
}

#[test]
fn a_latency_that_is_cut_anywhere_is_passed_over() {
    let dir = run_directory();
    let path = dir.path().join("latency.hlog");
    let mut histogram = crate::workload::histogram();
    histogram.record(7_000).unwrap();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    let line = |kind: &str| format!("Tag=wörk/{kind},0.000,1.000,7.000,{}\n", STANDARD.encode(&bytes));
    std::fs::write(&path, line("response") + &line("service")).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let before = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let services = |length: usize| {
        std::fs::write(&path, &whole[..length]).unwrap();
        directory(dir.path()).unwrap().latency["wörk"].service.count
    };
    for length in before..whole.len() {
        assert_eq!(services(length), 0, "cut after {length} bytes");
    }
    assert_eq!(services(whole.len()), 1);
}

#[test]
fn the_last_line_end_is_found_beyond_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let length = |text: &[u8]| {
        std::fs::write(&path, text).unwrap();
        last_line_end(&mut File::open(&path).unwrap()).unwrap()
    };
    let torn = vec![b'x'; usize::try_from(BLOCK).unwrap()];
    for more in [0, 1, 2, 70_000] {
        assert_eq!(length(&[b"one\n".as_slice(), &torn, &vec![b'x'; more]].concat()), 4);
        assert_eq!(length(&[&torn, &vec![b'x'; more], b"\n".as_slice()].concat()), BLOCK + more as u64 + 1);
    }
    assert_eq!((length(&torn), length(b""), length(b"\n")), (0, 0, 1));
}

#[test]
fn damage_in_the_middle_is_no_torn_line() {
    let dir = run_directory();
    std::fs::write(dir.path().join("gaps.csv"), format!("{GAPS}wörk,x,1\n{}", "wörk,3,4\n")).unwrap();
    assert!(directory(dir.path()).is_err());
}
