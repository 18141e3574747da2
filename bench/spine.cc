// The numbers of the contract: what a bind costs, and that cost and memory follow the live shape, not the
// bound. Pairs run interleaved in one process, since machines are shared and noisy.
//
//   bench/models.py && scripts/bench.sh          # makes the models, compiles them, runs this
//   build/release/bench_spine build/bench        # the folder with the .live files
//   valgrind --tool=callgrind build/release/bench_spine run FILE WIDTH S RUNS   # instructions of RUNS runs
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/interpose.h"
#include "liveshape/liveshape.h"
#include "runtime/backend.h"

namespace liveshape {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPairs = 30;

double Micros(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double Quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1) + 0.5)];
}

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_spine: %s\n", status.message().c_str());
  std::exit(2);
}

struct Model {
  std::unique_ptr<Session> session;
  double load_ms = 0;
};

Model Open(const std::string& path) {
  Model model;
  model.load_ms =
      Micros([&] {
        auto artifact = Artifact::Load(path);
        Must(artifact.status());
        auto session = Session::Create(*artifact, MakeCpuBackend({.threads = 2}), {.strict = true});
        Must(session.status());
        model.session = *std::move(session);
      }) /
      1000;
  return model;
}

// Interleaved: a b, b a, a b ... so that a slow moment hits both. Prints medians and the ratio's spread.
void ComparePairs(const char* what, const std::function<void()>& a,
                  const std::function<void()>& b) {
  std::vector<double> ta, tb, ratio;
  for (int i = 0; i < 3; ++i) a(), b();
  for (int i = 0; i < kPairs; ++i) {
    double x, y;
    if (i % 2)
      y = Micros(b), x = Micros(a);
    else
      x = Micros(a), y = Micros(b);
    ta.push_back(x), tb.push_back(y), ratio.push_back(x / y);
  }
  std::printf("%-58s %10.1f us %10.1f us   ratio %.3f  (p10 %.3f, p90 %.3f)\n", what,
              Quantile(ta, 0.5), Quantile(tb, 0.5), Quantile(ta, 0.5) / Quantile(tb, 0.5),
              Quantile(ratio, 0.1), Quantile(ratio, 0.9));
}

struct Floats {
  std::vector<float> data;
  TensorRef ref;
  Floats(int64_t s, int64_t width) : data(static_cast<size_t>(s * width), 0.01f) {
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>(static_cast<int>(i % 97) - 48) / 48;
    ref = {DType::kF32, data.data(), {1, s, width}};
  }
};

void Bind(const std::string& dir) {
  Model model = Open(dir + "/decoder_small.live");
  std::vector<double> us;
  for (int i = 0; i < 2000; ++i) {
    Floats x(1 + i * 37 % 4096, 64);
    Must(model.session->Bind({&x.ref, 1}));
    us.push_back(model.session->stats().last_bind_us);
  }
  const Stats stats = model.session->stats();
  std::printf(
      "bind to a new shape, two layers: median %.2f us, p90 %.2f us (%zu instructions); "
      "allocations %llu, "
      "rebuilds %llu, moved %llu\n",
      Quantile(us, 0.5), Quantile(us, 0.9), model.session->plan_report().shape_instructions,
      static_cast<unsigned long long>(stats.allocations),
      static_cast<unsigned long long>(stats.rebuilds),
      static_cast<unsigned long long>(stats.moved_addresses));
}

void BoundAgainstBound(const std::string& dir) {
  Model large = Open(dir + "/decoder_4096.live"), small = Open(dir + "/decoder_16.live");
  Floats x(16, 512);
  ComparePairs(
      "run at S=16: bound 4096 against bound 16", [&] { Must(large.session->Run({&x.ref, 1})); },
      [&] { Must(small.session->Run({&x.ref, 1})); });
  const size_t at16 = large.session->stats().arena_resident,
               twin = small.session->stats().arena_resident;
  const size_t slots = large.session->plan_report().slots;
  std::printf(
      "arena reserved %.1f MB; resident at S=16: %zu B, bound 16: %zu B, allowed %.0f B (1.1x + a "
      "page for %zu slots)\n",
      static_cast<double>(large.session->stats().arena_reserved) / 1e6, at16, twin,
      1.1 * static_cast<double>(twin) + 4096.0 * static_cast<double>(slots), slots);
  Floats full(4096, 512);
  Must(large.session->Run({&full.ref, 1}));
  const size_t at4096 = large.session->stats().arena_resident;
  Must(large.session->Run({&x.ref, 1}));
  large.session->Trim();
  std::printf("resident at S=4096: %.1f MB; after 4096 -> 16 and trim(): %zu B\n",
              static_cast<double>(at4096) / 1e6, large.session->stats().arena_resident);
}

// Decode at positions 16, 17, ...: both caches hold the same tokens.
void Decode(const std::string& dir) {
  Model large = Open(dir + "/static_cache_4096.live"), small = Open(dir + "/static_cache_64.live");
  auto step = [](Session& session, int64_t position, int64_t count) {
    std::vector<int64_t> ids(static_cast<size_t>(count)), positions(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      ids[static_cast<size_t>(i)] = (position + i) * 7 % 250,
      positions[static_cast<size_t>(i)] = position + i;
    TensorRef inputs[] = {{DType::kI64, ids.data(), {1, count}},
                          {DType::kI64, positions.data(), {count}}};
    Must(session.Run(inputs));
  };
  int64_t at[2] = {16, 16};
  step(*large.session, 0, 16), step(*small.session, 0, 16);
  ComparePairs(
      "static-cache Qwen3 decode from position 16: 4096 against 64",
      [&] { step(*large.session, at[0]++, 1); }, [&] { step(*small.session, at[1]++, 1); });
}

void PlanQuality(const std::string& dir) {
  for (const char* name : {"decoder_4096", "decoder_small", "static_cache_64", "weights_100mb"}) {
    Model model = Open(dir + "/" + name + ".live");
    const auto report = model.session->plan_report();
    std::printf("plan of %-16s %12zu B, lower bound %12zu B: %.3f; load %.1f ms\n", name,
                report.bytes, report.lower_bound,
                static_cast<double>(report.bytes) /
                    static_cast<double>(std::max<size_t>(1, report.lower_bound)),
                model.load_ms);
  }
}

// For callgrind, where time means nothing and instructions do: one thread, so that no spinning is counted.
void RunOnly(const std::string& path, int64_t width, int64_t s, int runs) {
  auto artifact = Artifact::Load(path);
  Must(artifact.status());
  auto session = Session::Create(*artifact, MakeCpuBackend({.threads = 1}));
  Must(session.status());
  Floats x(s, width);
  for (int i = 0; i < runs; ++i) Must((*session)->Run({&x.ref, 1}));
}

}  // namespace
}  // namespace liveshape

int main(int argc, char** argv) {
  liveshape::InstallAllocationObserver();
  if (argc == 6 && std::string(argv[1]) == "run") {
    liveshape::RunOnly(argv[2], std::stoll(argv[3]), std::stoll(argv[4]), std::stoi(argv[5]));
    return 0;
  }
  const std::string dir = argc > 1 ? argv[1] : "build/bench";
  liveshape::Bind(dir);
  liveshape::BoundAgainstBound(dir);
  liveshape::Decode(dir);
  liveshape::PlanQuality(dir);
}
