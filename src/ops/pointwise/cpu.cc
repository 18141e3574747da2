// The fused pointwise engine: a program runs tile by tile, all of its steps on one tile before the next,
// so a chain reads its inputs and writes its output once. An element's value does not depend on the tile that it falls
// into.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "backends/cpu/kernel.h"
#include "backends/cpu/stream.h"
#include "base/observe.h"
#include "ops/ops.h"
#include "ops/pointwise/cpu_execution.h"
#include "ops/pointwise/cpu_gather.h"
#include "ops/pointwise/cpu_generate.h"
#include "ops/pointwise/cpu_program.h"

namespace liveshape::cpu {
namespace {

using pw::Gather;
using pw::Gathered;
using pw::Generate;
using pw::kLongTile;
using pw::kMaxRank;
using pw::kStrip;
using pw::kTile;
using pw::Place;
using pw::Program;
using pw::Source;
using pw::Space;
using pw::Step;

struct PointwisePrepared : Prepared {
  Program program;
  size_t first_scalar = 0;  // where the program's scalars begin in KernelArgs::params
};

// How a result reaches memory. Where a chain cannot stream it from its registers, tiles of it are streamed one by one.
enum class Writing : uint8_t { kPlain, kStreamedByChain, kStreamedByTile };
// Of operands and result for each thread: more is not in its L2 when it is come back to.
constexpr size_t kAfarBytes = size_t{768} << 10;
// Loads wait while a tile is streamed out: short turns.
constexpr int64_t kStreamTile = kTile / 2;
// Dearer programs wait for their arithmetic, not for memory: the turns of stores would come on top.
constexpr int kStreamWeight = 8;
// Shorter rows are cheaper to copy one after another than to end with partial vectors each.
constexpr int64_t kShortRow = 16;

// How a space is taken: several rows at once where the program can and no input needs a copy; else within rows where rows
// are long, so that strides and broadcasts need no copy; else straight through the rows.
struct Tiling {
  bool by_rows, within_rows;
  int64_t length;  // elements of a tile, at most
  int64_t claim;   // of a thread at a time

  Tiling(const Program& program, std::span<const Source> sources, const Space& space,
         Writing writing) {
    const bool streamed = writing == Writing::kStreamedByTile;
    const bool transposed = std::any_of(sources.begin(), sources.end(), [&](const Source& source) {
      return source.transposed(space);
    });
    by_rows = !streamed && TakesRows(program, sources, space);
    int64_t most = by_rows ? kLongTile : streamed && !transposed ? kStreamTile : kTile;
    within_rows = by_rows || space.inner() >= most / 2;
    const int64_t row = within_rows ? space.inner() : space.numel, strip = kStrip * space.inner();
    const bool strips = transposed && !within_rows && strip <= most;
    if (strips) most = most / strip * strip;
    const int64_t per_row = (row + most - 1) / most;
    length = strips ? most : std::min(most, ((row + per_row - 1) / per_row + 63) / 64 * 64);
    // About 10 us of work: an addition in cache takes some 0.1 ns an element.
    const int64_t work = std::max(64 * kTile / program.weight, most);
    claim = within_rows && row <= work ? work / row * row
                                       : std::max<int64_t>(1, work / length) * length;
  }

 private:
  static bool TakesRows(const Program& program, std::span<const Source> sources,
                        const Space& space) {
    if (!program.takes_rows) return false;
    if (space.rank > 1 && space.inner() < kShortRow) return false;
    for (const Step& step : program.steps) {
      if (step.kind != Step::Kind::kLoad || sources[step.imm].flat) continue;
      const int64_t stride = sources[step.imm].strides[space.rank - 1];
      if (stride != 1 && (stride != 0 || step.whole)) return false;
    }
    return true;
  }
};

// One worker's run over some elements.
class Runner {
 public:
  Runner(const KernelArgs& args, const PointwisePrepared& prepared, const Source* sources,
         const Space& space, Writing writing, bool from_afar, std::byte* memory, const Part& part)
      : args_(args),
        program_(prepared.program),
        sources_(sources),
        space_(space),
        past_caches_(writing == Writing::kStreamedByChain),
        from_afar_(from_afar),
        stream_(writing == Writing::kStreamedByTile ? FindStream() : nullptr),
        out_(args.out(0).data),
        size_(static_cast<int64_t>(SizeOf(program_.dtype))),
        execution_(prepared.program, memory, past_caches_ ? StreamIsa() : MemoryIsa()) {
    if (args.earlier) {
      const View& between = args.earlier->args.out(0);
      passed_ = between.data;
      passed_by_ =
          part.elements - (between.data + part.begin * static_cast<int64_t>(SizeOf(between.dtype)));
    }
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kConst)
        execution_.SetNumber(step, IsFloat(step.dtype), step.imm);
      if (step.kind == Step::Kind::kScalar)
        execution_.SetNumber(step, program_.float_scalar[step.imm],
                             args_.params[prepared.first_scalar + step.imm]);
    }
  }

  // Elements [begin, end) of the output.
  bool Range(const Tiling& tiling, int64_t begin, int64_t end) {
    const int64_t inner = space_.inner();
    bool good = true;
    for (Place place(space_, begin); place.begin < end;) {
      const int64_t left = end - place.begin;
      const int64_t to_row_end = space_.rank == 0 ? 1 : inner - place.at[space_.rank - 1];
      if (!tiling.by_rows) {
        const int64_t n = std::min({left, tiling.length, tiling.within_rows ? to_row_end : left});
        good &= Tile(place, n);
        tiling.within_rows ? place.Advance(space_, n) : place.Seek(space_, place.begin + n);
      } else if (to_row_end < inner || left < inner || inner > program_.longest_row) {
        const int64_t n = std::min(left, to_row_end);
        good &= PartsOfRow(place, n);
        place.Advance(space_, n);
      } else {
        const int64_t below =
            space_.rank < 2 ? 1 : space_.dims[space_.rank - 2] - place.at[space_.rank - 2];
        const int64_t rows = std::min(left / inner, below);
        good &= RowsOf(place, Rows(inner, rows), space_.rank - 2);
        place.Seek(space_, place.begin + rows * inner);
      }
    }
    return good;
  }

 private:
  bool Tile(const Place& place, int64_t n) {
    std::byte* const target = out_ + place.begin * size_;
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kLoad) Load(step, place, n);
      if (step.kind == Step::Kind::kIota) Iota(step, place.begin, n);
      if (step.computes() && !execution_.Run(step, Rows(n), stream_ ? nullptr : target))
        return false;
    }
    const std::byte* const result = execution_.result();
    const size_t bytes = n * size_;
    if (stream_) {
      stream_(result, target, bytes);
    } else if (result != target) {
      std::memcpy(target, result, bytes);
    }
    return true;
  }

  // n elements of one row. Parts of a long row are rows one after another.
  bool PartsOfRow(const Place& place, int64_t n) {
    const int64_t most = program_.longest_row, parts = n / most;
    bool good = true;
    if (parts > 0) good = RowsOf(place, Rows(most, parts), space_.rank - 1);
    if (n == parts * most) return good;
    Place rest = place;
    rest.Advance(space_, parts * most);
    return RowsOf(rest, Rows(n - parts * most), space_.rank - 1) && good;
  }

  // Of the output, one behind another.
  pw::Execution::Rows Rows(int64_t n, int64_t count = 1) const {
    return {n, count, n * size_, past_caches_, from_afar_};
  }

  // Rows one below another along dim d; only where tiling.by_rows.
  bool RowsOf(const Place& place, const pw::Execution::Rows& rows, int d) {
    bool good = true;
    for (const Step& step : program_.steps) {
      if (step.computes()) good = execution_.Run(step, rows, out_ + place.begin * size_);
      if (step.kind != Step::Kind::kLoad) continue;
      const Source& source = sources_[step.imm];
      const Gathered found = Find(source, place, rows.n, !step.whole, nullptr);
      const int64_t indices = d == space_.rank - 1 ? rows.n : 1;
      const int64_t row_step = d < 0 ? 0 : source.strides[d] * indices * source.size;
      if (found.splat)
        execution_.SetSplat(step, found.data, row_step);
      else
        execution_.SetTile(step, found.data, row_step);
    }
    return good;
  }

  Gathered Find(const Source& source, const Place& place, int64_t n, bool may_splat,
                std::byte* to) const {
    Gathered found = Gather(source, space_, place, n, may_splat, to);
    if (source.data == passed_) found.data += passed_by_;
    return found;
  }

  void Load(const Step& step, const Place& place, int64_t n) {
    const Source& source = sources_[step.imm];
    const Gathered found = Find(source, place, n, !step.whole, execution_.Register(step));
    if (found.splat)
      execution_.SetSplat(step, found.data);
    else
      execution_.SetTile(step, found.data);
  }

  void Iota(const Step& step, int64_t begin, int64_t n) {
    const View& out = args_.out(0);
    int64_t repeat = 1;
    for (int d = static_cast<int>(step.imm) + 1; d < out.rank; ++d) repeat *= out.dims[d];
    const int64_t extent = out.dims[step.imm];
    int64_t index = begin / repeat % extent, left = repeat - begin % repeat;
    std::byte* to = execution_.Register(step);
    const bool splat = left >= n && !step.whole;
    Generate(step.dtype, to, splat ? 1 : n, [&](int64_t) {
      const int64_t now = index;
      if (--left == 0) {
        left = repeat;
        if (++index == extent) index = 0;
      }
      return now;
    });
    if (splat)
      execution_.SetSplat(step, to);
    else
      execution_.SetTile(step, to);
  }

  const KernelArgs& args_;
  const Program& program_;
  const Source* sources_;
  const Space& space_;
  const bool past_caches_, from_afar_;
  const StreamFn stream_;  // null: the result is not copied out of tiles
  std::byte* const out_;
  const int64_t size_;  // of an element of the output
  pw::Execution execution_;
  // What an earlier step passes on, and how far from its place this part of it lies.
  const std::byte* passed_ = nullptr;
  ptrdiff_t passed_by_ = 0;
};

size_t SourceBytes(size_t inputs) { return (inputs * sizeof(Source) + 63) / 64 * 64; }

Status Run(const KernelArgs& args) {
  const auto& prepared = static_cast<const PointwisePrepared&>(*args.prepared);
  const Program& program = prepared.program;
  if (args.out(0).numel() == 0) return {};
  Source* sources = reinterpret_cast<Source*>(args.scratch);
  std::byte* workers = args.scratch + SourceBytes(args.inputs.size());
  const Space space = Collapse(args.out(0), args.inputs, sources);
  const std::span<const Source> inputs(sources, args.inputs.size());
  size_t bytes = space.numel * SizeOf(program.dtype);
  for (const Source& source : inputs) bytes += source.flat ? space.numel * source.size : 0;
  const bool large = bytes >= StreamBytes() && program.weight <= kStreamWeight;
  // Rows that begin with lines; others begin anywhere in them.
  const bool in_lines = reinterpret_cast<uintptr_t>(args.out(0).data) % 64 == 0 &&
                        (space.rank < 2 || space.inner() * SizeOf(program.dtype) % 64 == 0);
  const Writing writing = !large                        ? Writing::kPlain
                          : program.streams && in_lines ? Writing::kStreamedByChain
                                                        : Writing::kStreamedByTile;
  const bool from_afar = !large && bytes >= kAfarBytes * args.pool.size();
  const Tiling tiling(program, inputs, space, writing);
  std::atomic<bool> divided_by_zero{false};
  LS_RETURN_IF_ERROR(args.ForParts(space.numel, tiling.claim, [&](const Part& part) {
    Runner runner(args, prepared, sources, space, writing, from_afar,
                  workers + part.worker * pw::Execution::Bytes(program), part);
    if (!runner.Range(tiling, part.begin, part.end)) divided_by_zero.store(true);
    if (large) FlushStreams();
  }));
  if (divided_by_zero) {
    AllocationPause pause;
    return InvalidArgument("integer division by zero");
  }
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  auto prepared = std::make_unique<PointwisePrepared>();
  LS_ASSIGN_OR_RETURN(prepared->program, pw::CompileProgram(node.Program()));
  const size_t rank = graph.type(node.outputs[0]).dims.size();
  if (rank > kMaxRank)
    return Unsupported("pointwise of rank {}: at most {} is served", rank, kMaxRank);
  for (const auto& [name, attr] : node.attrs) {
    if (name == "program") break;
    if (const auto* exprs = std::get_if<std::vector<ir::Expr>>(&attr))
      prepared->first_scalar += exprs->size();
  }
  return std::unique_ptr<Prepared>(std::move(prepared));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  const Result<Program> program = pw::CompileProgram(node.Program());
  const size_t worker = program.ok() ? pw::Execution::Bytes(*program) : 0;
  return graph.table().Int(SourceBytes(node.inputs.size()) + threads * worker);
}

}  // namespace

extern const CpuKernel kPointwiseKernel = {.op = &ops::kPointwise,
                                           .run = Run,
                                           .prepare = Prepare,
                                           .scratch = Scratch,
                                           .takes_parts = true};

}  // namespace liveshape::cpu
