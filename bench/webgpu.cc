// What the WebGPU backend costs on the GPU at hand; bench/webgpu_bench.py makes the models and calls this. A line of JSON
// a measurement, on stdout.
//
//   bench_webgpu dispatch                              # µs a dispatch: 300 dependent ones, one submit
//   bench_webgpu chain FILE.live WIDTH LAYERS M...     # layers of f32 or f16 [M, WIDTH] -> the same: µs a layer
//   bench_webgpu decoder FILE.live prefill S... decode CONTEXT...
//   bench_webgpu profile FILE.live S POS               # GPU µs by op, one run
//   bench_webgpu bind FILE.live                        # µs of a bind to another shape
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/webgpu/device/device.h"
#include "base/half.h"
#include "liveshape/liveshape.h"
#include "runtime/backend.h"

namespace liveshape {
namespace {

using Clock = std::chrono::steady_clock;

double Micros(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_webgpu: %s\n", status.message().c_str());
  std::exit(2);
}

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

std::unique_ptr<Session> Open(const std::string& path, bool profile = false) {
  auto artifact = Artifact::Load(path);
  Must(artifact.status());
  auto session = Session::Create(*artifact, MakeWebGpuBackend({.profile = profile}),
                                 {.strict = true, .profile = profile});
  Must(session.status());
  return *std::move(session);
}

// Runs until a second has gone by or `most` are done, after three to warm up.
double MedianRun(const std::function<void()>& body, size_t most) {
  for (int i = 0; i < 3; ++i) body();
  std::vector<double> us;
  for (double sum = 0; us.size() < most && (sum < 1e6 || us.size() < 5); sum += us.back())
    us.push_back(Micros(body));
  return Median(us);
}

void Dispatches() {
  auto opened = gpu::OpenDevice({});
  Must(opened.status());
  gpu::Device& device = **opened;
  const gpu::BufferId x = device.CreateBuffer(4096, gpu::BufferUse::kStorage, "x"),
                      back = device.CreateBuffer(4096, gpu::BufferUse::kReadback, "back");
  const gpu::ShaderId shader = device.CreateShader(
      "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
      "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3<u32>) {\n"
      "  x[i.x] = x[i.x] * 0.5 + 1.0;\n}\n",
      "half");
  const gpu::Binding binding = gpu::Binding::kStorage;
  const gpu::PipelineId pipeline = device.CreatePipeline(shader, {&binding, 1}, "half");
  const gpu::BoundRange range{x, 0, 4096};
  const gpu::GroupId group = device.CreateGroup(pipeline, {&range, 1}, "half");
  for (int count : {1, 301}) {
    std::vector<gpu::Command> list(static_cast<size_t>(count),
                                   gpu::Command::Dispatch(pipeline, group, 16));
    list.push_back(gpu::Command::Copy(x, 0, back, 0, 64));
    const double us = MedianRun(
        [&] {
          Must(device.Encode(list));
          Must(device.Submit());
          Must(device.Map(back, 64));
          Must(device.Poll(true));
          device.Unmap(back);
        },
        200);
    std::printf("{\"what\": \"dispatch\", \"count\": %d, \"us\": %.2f, \"device\": \"%s\"}\n",
                count, us, device.adapter().name.c_str());
  }
}

struct Numbers {
  std::vector<std::byte> bytes;
  TensorRef ref;
  Numbers(DType dtype, std::vector<int64_t> dims) {
    size_t numel = 1;
    for (int64_t d : dims) numel *= static_cast<size_t>(d);
    bytes.resize(numel * SizeOf(dtype));
    for (size_t i = 0; i < numel; ++i) {
      const float value = static_cast<float>(static_cast<int>(i % 97) - 48) / 48;
      const uint16_t half = F16FromF32(value);
      std::memcpy(bytes.data() + i * SizeOf(dtype),
                  dtype == DType::kF16 ? static_cast<const void*>(&half) : &value, SizeOf(dtype));
    }
    ref = {dtype, bytes.data(), std::move(dims)};
  }
};

void Chain(const std::string& path, int64_t width, double layers, std::vector<int64_t> rows) {
  auto artifact = Artifact::Load(path);
  Must(artifact.status());
  const DType dtype = (*artifact)->inputs()[0].dtype;
  auto session = Open(path), profiled = Open(path, /*profile=*/true);
  for (int64_t m : rows) {
    Numbers x(dtype, {m, width});
    const double us = MedianRun([&] { Must(session->Run({&x.ref, 1})); }, 100);
    // Timestamps tell what the GPU did; the clock, also what it takes to bring rows there and back.
    double gpu = 0;
    for (int i = 0; i < 20; ++i) {
      if (i == 10) profiled->ResetProfile();
      Must(profiled->Run({&x.ref, 1}));
    }
    for (const ProfileEntry& entry : profiled->profile()) gpu += entry.us / 10;
    std::printf(
        "{\"what\": \"chain\", \"file\": \"%s\", \"m\": %lld, \"us_a_layer\": %.3f, "
        "\"gpu_us_a_layer\": %.3f}\n",
        path.c_str(), static_cast<long long>(m), us / layers, gpu / layers);
    std::fflush(stdout);
  }
}

struct Tokens {
  std::vector<int64_t> ids;
  int64_t pos;
  std::vector<TensorRef> refs;
  Tokens(int64_t s, int64_t at) : ids(static_cast<size_t>(s)), pos(at) {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 131 % 151);
    refs = {{DType::kI64, ids.data(), {1, s}}, {DType::kI64, &pos, {}}};
  }
};

void Decoder(const std::string& path, const std::vector<std::string>& asked) {
  std::unique_ptr<Session> session;
  const double load = Micros([&] { session = Open(path); });
  std::printf("{\"what\": \"load\", \"file\": \"%s\", \"ms\": %.1f}\n", path.c_str(), load / 1000);
  std::string kind;
  for (const std::string& word : asked) {
    if (word == "prefill" || word == "decode") {
      kind = word;
      continue;
    }
    const int64_t n = std::stoll(word);
    double us = 0;
    if (kind == "prefill") {
      Tokens tokens(n, 0);
      us = MedianRun([&] { Must(session->Run(tokens.refs)); }, 50);
    } else {
      Tokens token(1, 0);
      int64_t step = 0;
      const int64_t moves = std::min<int64_t>(n, 32);
      us = MedianRun(
          [&] {
            token.pos = n - 1 - step++ % moves;  // the context moves, as it does
            Must(session->Run(token.refs));
          },
          400);
    }
    const double tokens = kind == "prefill" ? static_cast<double>(n) : 1;
    std::printf(
        "{\"what\": \"%s\", \"file\": \"%s\", \"n\": %lld, \"us\": %.1f, \"tokens_s\": %.1f}\n",
        kind.c_str(), path.c_str(), static_cast<long long>(n), us, tokens * 1e6 / us);
    std::fflush(stdout);
  }
}

void Profile(const std::string& path, int64_t s, int64_t pos) {
  auto session = Open(path, /*profile=*/true);
  Tokens tokens(s, pos);
  for (int i = 0; i < 3; ++i) Must(session->Run(tokens.refs));
  session->ResetProfile();
  Must(session->Run(tokens.refs));
  std::map<std::string, std::pair<double, int>> by_op;
  double total = 0;
  size_t dispatched = 0;
  for (const ProfileEntry& entry : session->profile()) {
    by_op[entry.op].first += entry.us;
    by_op[entry.op].second += static_cast<int>(entry.calls);
    total += entry.us;
    dispatched += entry.calls;
  }
  for (const auto& [op, sum] : by_op)
    std::printf(
        "{\"what\": \"profile\", \"s\": %lld, \"op\": \"%s\", \"us\": %.1f, \"dispatches\": %d}\n",
        static_cast<long long>(s), op.c_str(), sum.first, sum.second);
  std::printf(
      "{\"what\": \"profile\", \"s\": %lld, \"op\": \"all\", \"us\": %.1f, \"dispatches\": %zu}\n",
      static_cast<long long>(s), total, dispatched);
}

void Bind(const std::string& path) {
  auto session = Open(path);
  std::vector<double> us;
  for (int i = 0; i < 500; ++i) {
    Tokens tokens(1 + i % 7, i % 50);
    Must(session->Bind(tokens.refs));
    us.push_back(session->stats().last_bind_us);
  }
  std::printf("{\"what\": \"bind\", \"file\": \"%s\", \"us\": %.2f}\n", path.c_str(), Median(us));
}

int Main(const std::vector<std::string>& args) {
  const auto numbers = [&](size_t from) {
    std::vector<int64_t> values;
    for (size_t i = from; i < args.size(); ++i) values.push_back(std::stoll(args[i]));
    return values;
  };
  const std::string what = args.empty() ? "" : args[0];
  if (what == "dispatch")
    Dispatches();
  else if (what == "chain" && args.size() > 4)
    Chain(args[1], std::stoll(args[2]), std::stod(args[3]), numbers(4));
  else if (what == "decoder" && args.size() > 3)
    Decoder(args[1], {args.begin() + 2, args.end()});
  else if (what == "profile" && args.size() == 4)
    Profile(args[1], std::stoll(args[2]), std::stoll(args[3]));
  else if (what == "bind" && args.size() == 2)
    Bind(args[1]);
  else {
    std::fprintf(stderr,
                 "bench_webgpu dispatch | chain | decoder | profile | bind: see webgpu.cc\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace liveshape

int main(int argc, char** argv) { return liveshape::Main({argv + 1, argv + argc}); }
