//! The password of a connection string: no byte of it is printed or written, whatever happens.

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run};
use crate::support::script::Script;

/// The password is `p@ss/w%rd:#`.
const USER_INFO: &str = "keeper:p%40ss%2Fw%25rd%3A%23";
/// Every form of it, and parts that an error message might quote.
const SECRETS: [&str; 6] = ["p%40ss", "w%25rd", "p@ss", "w%rd", "ss/w", "ss%2Fw"];

const SCENARIO: &str = r#"
name = "secrets"
seed = 1
duration = "1s"
warmup = "0s"
[dataset]
documents = 100
[[workload]]
name = "readers"
op = "read"
"#;

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Nothing printed, and nothing in any file but those that the test itself wrote.
fn check(ended: &Ended, written_by_us: &[&str]) {
    for secret in SECRETS {
        assert!(!ended.printed().contains(secret), "{secret} was printed: {}", ended.printed());
        for file in ended.files() {
            let name = file.file_name().unwrap().to_str().unwrap();
            let ours = file.parent() != Some(&*ended.out()) && written_by_us.contains(&name);
            let bytes = std::fs::read(&file).unwrap();
            assert!(ours || !contains(&bytes, secret), "{secret} stands in {}", file.display());
        }
    }
}

fn uri(host: &str) -> String {
    format!(
        "mongodb://{USER_INFO}@{host}/soak?authSource=admin&directConnection=true&serverSelectionTimeoutMS=500"
    )
}

#[tokio::test]
async fn not_when_nobody_answers() {
    let ended = Run::new(SCENARIO, &uri("127.0.0.1:9")).env("MONGOSOAK_LOG", "trace").finish().await;
    assert_eq!(ended.code, 5, "{}", ended.printed());
    assert!(ended.files().len() > 5, "there are files to look at");
    check(&ended, &[]);
}

#[tokio::test]
async fn not_when_the_password_is_refused() {
    let server = FakeServer::start(Script::default());
    let ended = Run::new(SCENARIO, &uri(&server.addr())).env("MONGOSOAK_LOG", "trace").finish().await;
    // Our server knows no users.
    assert_eq!(ended.code, 5, "{}", ended.printed());
    assert!(server.count("saslStart") > 0, "it was tried");
    check(&ended, &[]);
}

#[tokio::test]
async fn not_from_the_scenario_or_a_file_of_its_own() {
    let scenario = format!("{SCENARIO}[cluster]\nuri = \"{}\"\n", uri("127.0.0.1:9"));
    let run = Run::command("run", &scenario);
    let out = run.out();
    let ended = run.arguments(&["--out", out.to_str().unwrap()]).finish().await;
    assert_eq!(ended.code, 5, "{}", ended.printed());
    check(&ended, &["scenario.toml"]);

    let run = Run::command("run", SCENARIO);
    let (out, file) = (run.out(), run.out().with_file_name("uri"));
    std::fs::write(&file, uri("127.0.0.1:9")).unwrap();
    let arguments = ["--out", out.to_str().unwrap(), "--uri-file", file.to_str().unwrap()];
    let ended = run.arguments(&arguments).finish().await;
    assert_eq!(ended.code, 5, "{}", ended.printed());
    check(&ended, &["uri"]);
}

#[tokio::test]
async fn not_when_it_needs_codes() {
    for raw in ["p@ss/w%rd:#", "p@ss/w", "w%rd", "w%rd:#", "p%40ss/w%25rd"] {
        let uri = format!("mongodb://keeper:{raw}@127.0.0.1:9/soak?authSource=admin");
        let run = Run::new(SCENARIO, &uri);
        let out = run.out();
        let ended = run.finish().await;
        assert_eq!(ended.code, 2, "{}", ended.printed());
        assert!(ended.stderr.contains("percent-encode"), "{}", ended.stderr);
        assert!(!out.exists(), "nothing was made");
        check(&ended, &[]);
    }
}

/// Every way in which the rest of the string may be wrong.
#[tokio::test]
async fn not_when_the_rest_is_wrong() {
    for rest in ["host:port/", "127.0.0.1:9/?w=0", "127.0.0.1:9/?maxPoolSize=x", "127.0.0.1:99999/", ""] {
        let ended = Run::new(SCENARIO, &format!("mongodb://{USER_INFO}@{rest}")).finish().await;
        assert_eq!(ended.code, 2, "{}", ended.printed());
        check(&ended, &[]);
    }
}
