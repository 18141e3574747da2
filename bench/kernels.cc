// Our kernels as shares of what the machine can do, measured in the same run: multiply-adds a second and
// bytes read a second, by loops that do nothing else.
//
//   build/release/bench_kernels --help
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/peak.h"
#include "backends/cpu/simd/isa.h"
#include "ops/attention/cpu_block.h"
#include "ops/linear/panel.h"
#include "ops/linear/quantised.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace liveshape::cpu {

extern const CpuKernel kConvKernel;

namespace {

constexpr char kUsage[] =
    R"(Our products, convolutions and attention as shares of the machine's multiply-add peak and
read bandwidth, which are measured first.

  bench_kernels [--threads N] [--quick] [--cpu-time] [--only PART]

  --threads N   all cores unless told
  --quick       0.2 seconds a row, not one
  --cpu-time    one thread, timed by the processor time it got, for a machine that others use as well
  --only PART   matmul, sweep (time by the number of rows), conv or attention

examples:
  bench_kernels --quick
  bench_kernels --threads 1 --only matmul
)";

bool quick = false, cpu_time = false;

double Seconds() {
  timespec now;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Best of several: other programs on the machine only make it slower.
template <typename F>
double Best(F&& f) {
  f();
  double best = 1e30, spent = 0;
  for (int i = 0; i < (quick ? 5 : 200) && (i < 3 || spent < (quick ? 0.2 : 1.0)); ++i) {
    const double start = Seconds();
    f();
    const double took = Seconds() - start;
    best = std::min(best, took);
    spent += took;
  }
  return best;
}

struct Machine { double flops, bytes; };

Machine Measure(ThreadPool& pool) {
  constexpr int64_t kRounds = 200'000;
  const int n = pool.size();
  const double fma = Best([&] {
    pool.ParallelFor(n, 1, [](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) MultiplyAdds(kRounds);
    });
  });
  std::vector<float> memory(int64_t{64} << 20, 1.0f);  // 256 MB, beyond any L3 here
  const int64_t part = static_cast<int64_t>(memory.size()) / (16 * n);
  const double read = Best([&] {
    pool.ParallelFor(16 * n, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) ReadAll(memory.data() + i * part, part);
    });
  });
  return {n * kRounds * FlopsOfRound() / fma, memory.size() * sizeof(float) / read};
}

std::vector<float> Random(int64_t count) {
  std::mt19937 random(1);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random() % 2048) / 1024 - 1;
  return values;
}

struct GemmTime {
  double seconds;
  double bytes;  // of B
};

GemmTime TimeGemm(int64_t m, int64_t n, int64_t k, ThreadPool& pool, DType dtype,
                  ir::Encoding encoding) {
  const std::vector<float> a = Random(m * k);
  const bool quantised = encoding != ir::Encoding::kPlain;
  const int64_t b_bytes =
      quantised ? ops::QuantisedBytes(encoding, n, k) : ops::Panel16Bytes(n, k, dtype);
  std::vector<float> b(b_bytes / 4), c(m * n);
  if (dtype == DType::kF32 && !quantised) b = Random(b_bytes / 4);
  GemmCall call;
  call.m = m, call.n = n, call.k = k;
  call.a = {.data = reinterpret_cast<const std::byte*>(a.data()),
            .dtype = dtype,
            .rank = 1,
            .dims = &call.m,
            .strides = &call.k,
            .k_stride = 1};
  call.b = {.data = reinterpret_cast<const std::byte*>(b.data()),
            .dtype = dtype,
            .panels = true,
            .encoding = encoding};
  call.c = reinterpret_cast<std::byte*>(c.data());
  call.c_dtype = dtype;
  std::vector<float> scratch(GemmScratchBytes(call, m, n, k, pool.size()) / 4 + 16);
  return {Best([&] { Gemm(call, pool, reinterpret_cast<std::byte*>(scratch.data())); }),
          static_cast<double>(b_bytes)};
}

void Gemms(const Machine& machine, ThreadPool& pool) {
  std::printf("\nmatmul, weights in panels\n%-32s %10s %10s %9s %9s\n", "M x N x K", "us",
              "GFLOP/s", "of FMA", "of read");
  const auto line = [&](int64_t m, int64_t n, int64_t k, DType dtype = DType::kF32,
                        ir::Encoding encoding = ir::Encoding::kPlain) {
    const GemmTime t = TimeGemm(m, n, k, pool, dtype, encoding);
    const double flops = 2.0 * m * n * k / t.seconds;
    char name[64];
    std::snprintf(name, sizeof(name), "%ld x %ld x %ld %s %s", m, n, k,
                  dtype == DType::kF32 ? "" : Name(dtype),
                  encoding == ir::Encoding::kPlain ? "" : ir::Name(encoding));
    std::printf("%-32s %10.1f %10.1f %8.1f%% %8.1f%%\n", name, t.seconds * 1e6, flops / 1e9,
                100 * flops / machine.flops, 100 * t.bytes / t.seconds / machine.bytes);
  };
  constexpr ir::Encoding kQuantised[] = {ir::Encoding::kQ8SymG32, ir::Encoding::kQ4SymG32};
  line(1024, 1024, 1024);
  line(512, 4096, 1024);
  line(512, 1024, 4096);
  line(1024, 1024, 1024, DType::kBF16);
  line(1, 4096, 4096);
  line(1, 8192, 8192);
  line(1, 8192, 8192, DType::kF16);
  line(1, 8192, 8192, DType::kBF16);
  line(4, 8192, 8192, DType::kBF16);
  for (ir::Encoding encoding : kQuantised) {
    line(1, 4096, 4096, DType::kF32, encoding);
    line(1, 8192, 8192, DType::kF32, encoding);
    line(1, 8192, 8192, DType::kBF16, encoding);
    line(512, 4096, 1024, DType::kF32, encoding);
    line(1024, 1024, 1024, DType::kF32, encoding);
  }
}

// How time grows with M: against the row before (a cliff is a ratio above that of the M's, or one below 1: the
// smaller M was served badly), and against the larger of what the reads and the multiply-adds take at least.
void GemmSweep(const Machine& machine, ThreadPool& pool, int64_t n, int64_t k) {
  for (ir::Encoding encoding :
       {ir::Encoding::kPlain, ir::Encoding::kQ8SymG32, ir::Encoding::kQ4SymG32}) {
    std::printf("\nM x %ld x %ld, weights of %s\n%4s %10s %12s %14s\n", n, k,
                encoding == ir::Encoding::kPlain ? "f32" : ir::Name(encoding), "M", "us",
                "of M before", "of the least");
    double before = 0;
    for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 17, 20, 24, 32, 48, 64}) {
      const GemmTime t = TimeGemm(m, n, k, pool, DType::kF32, encoding);
      const double least = std::max(t.bytes / machine.bytes, 2.0 * m * n * k / machine.flops);
      std::printf("%4ld %10.1f %12.2f %14.2f\n", m, t.seconds * 1e6,
                  before > 0 ? t.seconds / before : 1.0, t.seconds / least);
      before = t.seconds;
    }
  }
}

void Attention(const Machine& machine, ThreadPool& pool) {
  std::printf("\nattention, f32\n%-44s %10s %10s %9s %9s\n", "", "us", "GFLOP/s", "of FMA",
              "of read");
  const auto line = [&](const char* what, int64_t h, int64_t g, int64_t s, int64_t t, int64_t d,
                        bool causal) {
    const std::vector<float> q = Random(h * s * d), k = Random(g * t * d), v = Random(g * t * d);
    std::vector<float> out(h * s * d);
    const int64_t q_dims[] = {1, h, s, d}, q_strides[] = {h * s * d, s * d, d, 1};
    const int64_t k_dims[] = {1, g, t, d}, k_strides[] = {g * t * d, t * d, d, 1};
    const auto view = [](const std::vector<float>& x, const int64_t* dims, const int64_t* strides) {
      return View{.data = reinterpret_cast<std::byte*>(const_cast<float*>(x.data())),
                  .dtype = DType::kF32,
                  .rank = 4,
                  .dims = dims,
                  .strides = strides};
    };
    const View vq = view(q, q_dims, q_strides), vk = view(k, k_dims, k_strides),
               vv = view(v, k_dims, k_strides), vo = view(out, q_dims, q_strides);
    const AttentionCall call = {.q = &vq,
                                .k = &vk,
                                .v = &vv,
                                .mask = nullptr,
                                .row_limits = nullptr,
                                .out = &vo,
                                .scale = 0.125f,
                                .has_limit = causal,
                                .limit = t - s + 1,
                                .all_masked = AllMasked::kZero};
    std::vector<float> scratch(int64_t{16} << 20);
    auto* bytes = reinterpret_cast<std::byte*>(scratch.data());
    const bool decode = FitsDecode(call);
    const double seconds = Best([&] {
      if (decode)
        DecodeAttention(call, pool, bytes);
      else
        BlockedAttention(call, pool, bytes);
    });
    double pairs = 0;
    for (int64_t i = 0; i < s; ++i) pairs += causal ? t - s + 1 + i : t;
    const double flops = 4.0 * h * d * pairs / seconds, read = 2.0 * g * t * d * 4 / seconds;
    std::printf("%-44s %10.1f %10.1f %8.1f%% %8.1f%%\n", what, seconds * 1e6, flops / 1e9,
                100 * flops / machine.flops, 100 * read / machine.bytes);
  };
  line("prefill 512 causal, 16/8 heads of 128", 16, 8, 512, 512, 128, true);
  line("prefill 512 causal, 16/16 heads of 64", 16, 16, 512, 512, 64, true);
  line("prefill 512, 12 heads of 64", 12, 12, 512, 512, 64, false);
  line("prefill 16 on 1024, 16/8 heads of 128", 16, 8, 16, 1024, 128, true);
  line("decode at 1024, 16/8 heads of 128", 16, 8, 1, 1024, 128, true);
  line("decode at 8192, 16/8 heads of 128", 16, 8, 1, 8192, 128, true);
  line("decode at 8192, 32/8 heads of 128", 32, 8, 1, 8192, 128, true);
  line("decode at 8192, 1 head of 64", 1, 1, 1, 8192, 64, true);
}

struct ConvShape {
  const char* what;
  int64_t channels, size, rows, kernel, stride, groups;
};

void Convolutions(const Machine& machine, ThreadPool& pool) {
  std::printf("\nconvolutions of one image, f32\n%-44s %10s %10s %9s\n", "", "us", "GFLOP/s",
              "of FMA");
  for (const ConvShape& s : {ConvShape{"7x7 / 2, 3 -> 64 of 224", 3, 224, 64, 7, 2, 1},
                             {"3x3, 64 -> 64 of 56", 64, 56, 64, 3, 1, 1},
                             {"1x1, 64 -> 256 of 56", 64, 56, 256, 1, 1, 1},
                             {"1x1, 256 -> 64 of 56", 256, 56, 64, 1, 1, 1},
                             {"3x3 / 2, 128 -> 128 of 56", 128, 56, 128, 3, 2, 1},
                             {"3x3, 128 -> 128 of 28", 128, 28, 128, 3, 1, 1},
                             {"3x3, 256 -> 256 of 14", 256, 14, 256, 3, 1, 1},
                             {"3x3, 512 -> 512 of 7", 512, 7, 512, 3, 1, 1},
                             {"3x3 depthwise, 128 of 56", 128, 56, 128, 3, 1, 128},
                             {"3x3 / 2 depthwise, 128 of 56", 128, 56, 128, 3, 2, 128}}) {
    const int64_t depth = s.channels / s.groups * s.kernel * s.kernel;
    const int64_t out = (s.size + s.kernel / 2 * 2 - s.kernel) / s.stride + 1;
    const std::vector<float> x = Random(s.channels * s.size * s.size), bias = Random(s.rows);
    const std::vector<float> weight = Random(ops::Panel16Bytes(s.rows, depth, DType::kF32) / 4);
    std::vector<float> y(s.rows * out * out);

    ir::Graph graph;
    const auto ints = [&](std::initializer_list<int64_t> dims) {
      ir::Dims result;
      for (int64_t d : dims) result.push_back(graph.table().Int(d));
      return result;
    };
    const auto image = graph.AddInput("x", {DType::kF32, ints({1, s.channels, s.size, s.size})});
    const auto panels = graph.AddConstant({.dims = {s.rows, depth},
                                           .layout = ir::ConstantLayout::kPanel16,
                                           .data = std::as_bytes(std::span(weight))});
    const auto shift = graph.AddInput("bias", {DType::kF32, ints({s.rows})});
    const ops::Window window = {
        .size = s.kernel, .stride = s.stride, .before = s.kernel / 2, .after = s.kernel / 2};
    ir::Attrs attrs = ops::WindowAttrs({window, window});
    attrs.emplace_back("groups", s.groups);
    LS_CHECK(graph.AddNode(ops::kConv, {image, panels, shift}, attrs).ok());
    const ir::Node& node = graph.nodes[0];
    const auto prepared = kConvKernel.prepare(graph, node);
    std::vector<float> scratch(kConvKernel.scratch(graph, node, pool.size()).value() / 4 + 16);

    const int64_t x_dims[] = {1, s.channels, s.size, s.size};
    const int64_t x_strides[] = {s.channels * s.size * s.size, s.size * s.size, s.size, 1};
    const int64_t w_dims[] = {s.rows, depth}, w_strides[] = {depth, 1};
    const int64_t y_dims[] = {1, s.rows, out, out};
    const int64_t y_strides[] = {s.rows * out * out, out * out, out, 1}, one[] = {1};
    const auto view = [](const std::vector<float>& v, int rank, const int64_t* dims,
                         const int64_t* strides) {
      return View{.data = reinterpret_cast<std::byte*>(const_cast<float*>(v.data())),
                  .rank = rank,
                  .dims = dims,
                  .strides = strides};
    };
    View inputs[] = {view(x, 4, x_dims, x_strides), view(weight, 2, w_dims, w_strides),
                     view(bias, 1, w_dims, one)};
    inputs[1].layout = ir::ConstantLayout::kPanel16;
    const View output = view(y, 4, y_dims, y_strides);
    const KernelArgs args = {.inputs = inputs,
                             .outputs = {&output, 1},
                             .params = {},
                             .scratch = reinterpret_cast<std::byte*>(scratch.data()),
                             .pool = pool,
                             .prepared = prepared->get(),
                             .in_place = false};
    const double seconds = Best([&] { LS_CHECK(kConvKernel.run(args).ok()); });
    const double flops = 2.0 * s.rows * out * out * depth / seconds;
    std::printf("%-44s %10.1f %10.1f %8.1f%%\n", s.what, seconds * 1e6, flops / 1e9,
                100 * flops / machine.flops);
  }
}

}  // namespace
}  // namespace liveshape::cpu

int main(int argc, char** argv) {
  using namespace liveshape;
  int threads = 0;
  std::string_view only;
  const auto is_part = [](std::string_view part) {
    return part == "matmul" || part == "sweep" || part == "conv" || part == "attention";
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--quick") {
      cpu::quick = true;
    } else if (flag == "--cpu-time") {
      cpu::cpu_time = true;
    } else if (flag == "--only" && is_part(value)) {
      only = argv[++i];
    } else if (flag == "--threads" && std::atoi(value) > 0) {
      threads = std::atoi(argv[++i]);
    } else {
      const bool asked = flag == "--help" || flag == "-h";
      if (!asked) std::fprintf(stderr, "bench_kernels: %s %s is no option\n\n", argv[i], value);
      std::fputs(cpu::kUsage, asked ? stdout : stderr);
      return asked ? 0 : 2;
    }
  }
  ThreadPool pool(cpu::cpu_time ? 1 : threads);
  const cpu::Machine machine = cpu::Measure(pool);
  std::printf("%s, %d threads: %.1f GFLOP/s of multiply-add, %.1f GB/s of reading\n",
              Name(cpu::BestIsa()), pool.size(), machine.flops / 1e9, machine.bytes / 1e9);
  const auto wanted = [&](std::string_view part) { return only.empty() || only == part; };
  if (wanted("matmul")) cpu::Gemms(machine, pool);
  if (wanted("sweep")) {
    cpu::GemmSweep(machine, pool, 1024, 1024);
    cpu::GemmSweep(machine, pool, 8192, 8192);
  }
  if (wanted("conv")) cpu::Convolutions(machine, pool);
  if (wanted("attention")) cpu::Attention(machine, pool);
  return 0;
}
