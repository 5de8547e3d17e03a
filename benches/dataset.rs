//! Nanoseconds per document and per chosen key on one core: `cargo bench --bench dataset`.

use std::hint::black_box;

use mongosoak::clock::Clock;
use mongosoak::dataset::{Chooser, Documents, Sequence};
use mongosoak::scenario::{Distribution, Shape};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn measure(name: &str, times: u64, mut operation: impl FnMut(u64)) {
    (0..times / 10).for_each(&mut operation);
    let clock = Clock::start();
    (0..times).for_each(&mut operation);
    let ns = clock.now().as_secs_f64() * 1e9 / times as f64;
    println!("{name:<24} {ns:8.1} ns/op {:10.3} M/s", 1e3 / ns);
}

fn main() {
    for (shape, name) in [(Shape::Row, "row"), (Shape::Ycsb, "ycsb")] {
        let documents = Documents::new(shape, 1);
        let mut out = Vec::with_capacity(documents.len_bytes());
        measure(&format!("{name} encode"), 2_000_000, |key| {
            out.clear();
            documents.encode(key, 1, &mut out);
            black_box(&out);
        });
        let written = documents.document(1, 1);
        measure(&format!("{name} check"), 1_000_000, |_| {
            black_box(documents.check(&written).is_ok());
        });
        measure(&format!("{name} update"), 1_000_000, |key| {
            black_box(documents.update(key, 1));
        });
    }
    let kinds = ["uniform", "zipfian", "latest", "hotspot", "exponential", "sequential"];
    let plain = [
        Distribution::Zipfian { exponent: 1.0, scrambled: true },
        Distribution::Zipfian { exponent: 0.99, scrambled: false },
        Distribution::Hotspot { keys: 0.2, operations: 0.8, scrambled: false },
    ];
    for distribution in kinds.into_iter().filter_map(Distribution::named).chain(plain) {
        let (mut rng, sequence) = (ChaCha8Rng::seed_from_u64(1), Sequence::default());
        let Ok(mut chooser) = Chooser::new(distribution, 10_000_000_000) else { return };
        measure(&format!("{distribution:?}"), 2_000_000, |_| {
            black_box(chooser.choose(&sequence, &mut rng));
        });
        measure("  while the keys grow", 2_000_000, |new| {
            chooser.follow(10_000_000_000 + new);
            black_box(chooser.choose(&sequence, &mut rng));
        });
    }
}
