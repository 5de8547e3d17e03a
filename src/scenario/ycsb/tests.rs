//! Property files in, scenarios or problems out.

use super::super::{Cluster, parse};
use super::*;

fn with(text: &str, parameters: &[&str]) -> Result<Translated, Problems> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("workloadx");
    std::fs::write(&path, text).unwrap();
    translate(&path, &parameters.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

fn translated(text: &str) -> Translated {
    with(text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(text: &str) -> Vec<String> {
    let problems = with(text, &[]).expect_err(text);
    problems.list().iter().map(|p| format!("{}: {}", p.line().unwrap_or(0), p.message)).collect()
}

const A: &str = "# Yahoo! Cloud System Benchmark\nrecordcount=1000\noperationcount=2000\n\
    workload=site.ycsb.workloads.CoreWorkload\n\nreadallfields=true\n\nreadproportion=0.5\n\
    updateproportion=0.5\nscanproportion=0\ninsertproportion=0\n\nrequestdistribution=zipfian\n";

#[test]
fn workload_a_becomes_a_scenario() {
    let Translated { source, notes } = translated(A);
    assert_eq!(
        source.text,
        "# YCSB properties of workloadx, as a scenario of mongosoak.\nname = \"workloadx\"\nduration = \
         \"365d\"\nwarmup = \"0s\"\n\n[cluster]\ntopology = \"standalone\"\n\n[dataset]\nshape = \
         \"ycsb\"\ndocuments = 1000\ndatabase = \"ycsb\"\ncollection = \"usertable\"\n\n[[workload]]\nname = \
         \"ycsb\"\nworkers = 1\nop = { mix = { read = 0.5, update = 0.5 } }\noperations = 2000\nwrite_concern \
         = 1\ndistribution = \"zipfian\"\n"
    );
    assert_eq!(notes, ["writeallfields: an update sets all fields, not one"]);
    let scenario = parse(&source).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(scenario.name, "workloadx");
}

#[test]
fn every_property_has_its_place() {
    let text = "recordcount = 3000000000\noperationcount = 5000000000\nmaxexecutiontime = 3600\n\
        threadcount = 64\ntarget = 5000\nfieldcount = 20\nfieldlength = 50\ntable = t\n\
        requestdistribution = hotspot\nhotspotdatafraction = 0.1\nhotspotopnfraction = 0.9\n\
        readproportion = 0\nupdateproportion = 0\nscanproportion = 0.95\ninsertproportion = 0.05\n\
        maxscanlength = 100\nwriteallfields = true\nmongodb.url = mongodb://u:p@h:1/mine?w=majority\n";
    let Translated { source, notes } = translated(text);
    for line in [
        "duration = \"3600s\"",
        "uri = \"mongodb://u:p@h:1/mine?w=majority\"",
        "shape = { ycsb = { fields = 20, length = 50 } }",
        "documents = 3000000000",
        "database = \"mine\"",
        "collection = \"t\"",
        "workers = 64",
        "rate = \"5000/s\"",
        "op = { mix = { insert = 0.05, scan = { weight = 0.95, length = 100 } } }",
        "operations = 5000000000",
        "write_concern = \"majority\"",
        "distribution = { hotspot = { keys = 0.1, operations = 0.9 } }",
    ] {
        assert!(source.text.lines().any(|written| written == line), "{line}\n{}", source.text);
    }
    assert_eq!(notes, ["target: latencies count from the intended start of an operation"]);
    assert!(!source.public_text().contains("u:p"), "{}", source.public_text());
    let scenario = parse(&source).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(scenario.dataset.documents, 3_000_000_000);
    assert!(matches!(scenario.cluster, Cluster::Attached(_)));
}

#[test]
fn all_workloads_of_ycsb_are_good_scenarios() {
    for proportions in [
        "readproportion=1\nupdateproportion=0",
        "readproportion=0.95\nupdateproportion=0\ninsertproportion=0.05\nrequestdistribution=latest",
        "readproportion=0\nupdateproportion=0\nscanproportion=1",
        "readproportion=0.5\nupdateproportion=0\nreadmodifywriteproportion=0.5",
        "readproportion=0\nupdateproportion=0\ninsertproportion=1\nrequestdistribution=sequential",
        "requestdistribution=exponential\nexponential.percentile=90\nexponential.frac=0.1",
    ] {
        let Translated { source, .. } =
            translated(&format!("recordcount=10\noperationcount=5\n{proportions}\n"));
        parse(&source).unwrap_or_else(|problems| panic!("{problems}\n{}", source.text));
    }
}

#[test]
fn parameters_go_before_the_file_and_threads_is_a_name_too() {
    let text = with(A, &["recordcount=5", "threads=8"]).unwrap().source.text;
    assert!(text.contains("documents = 5\n") && text.contains("workers = 8\n"), "{text}");
}

#[test]
fn what_is_different_or_unknown_is_said_once() {
    let text = "recordcount=10\nreadallfields=false\nfieldlengthdistribution=zipfian\ninsertorder=hashed\n\
        mongodb.batchsize=100\nhdrhistogram.percentiles=95\nfoo=bar\nmeasurementtype=hdrhistogram\ninsertstart=5\n";
    assert_eq!(
        translated(text).notes,
        [
            "insertstart and insertcount: all 10 records are loaded, from 0 on",
            "neither operationcount nor maxexecutiontime: it runs until you stop it",
            "fieldlengthdistribution: all fields have the full fieldlength",
            "insertorder: keys are the numbers from 0 on, inserted in order",
            "readallfields: a read asks for the whole document",
            "mongodb.batchsize: the load is in batches of its own; inserts of the run go one by one",
            "writeallfields: an update sets all fields, not one",
            "ignored: foo, hdrhistogram.percentiles",
        ]
    );
}

#[test]
fn wrong_values_are_refused_with_their_lines_all_at_once() {
    let text = "recordcount=many\noperationcount=-1\nreadproportion=x\nrequestdistribution=zipf\n\
        threadcount=0\nfieldcount=20000\nworkload=my.Workload\nmaxscanlength=0\nhotspotdatafraction=2\n\
        target=-5\nwriteallfields=maybe\n";
    assert_eq!(
        refused(text),
        [
            "1: recordcount cannot be \"many\"",
            "2: operationcount cannot be \"-1\"",
            "3: readproportion cannot be \"x\"",
            "4: requestdistribution cannot be \"zipf\"",
            "5: threadcount cannot be \"0\"",
            "6: 20000 fields of 100 bytes are more than the 16 MiB of a document",
            "7: my.Workload is not the core workload",
            "8: maxscanlength cannot be \"0\"",
            "9: hotspotdatafraction cannot be \"2\"",
            "10: target cannot be \"-5\"",
            "11: writeallfields cannot be \"maybe\"",
        ]
    );
    assert_eq!(refused("operationcount=5\n"), ["0: recordcount is missing"]);
    let none = "recordcount=1\nreadproportion=0\nupdateproportion=0\n";
    assert_eq!(refused(none), ["2: all proportions are 0"]);
}

#[test]
fn no_message_repeats_a_connection_string() {
    for (url, why) in [
        ("mongodb://u:secret@h/?w=0", "w=0 is refused"),
        ("mongodb://u:sec ret@h/", "needs a code"),
        ("mongodb://u:secret@h/admin", "belongs to the server itself"),
        ("secret", "begins with mongodb://"),
    ] {
        let problems = with(&format!("recordcount=1\nmongodb.url={url}\n"), &[]).unwrap_err().to_string();
        assert!(
            problems.contains(why) && !problems.contains("secret") && !problems.contains("sec ret"),
            "{problems}"
        );
    }
}
