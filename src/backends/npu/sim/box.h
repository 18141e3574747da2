// The bursts of an N-D DMA, in the order of memory: dims are walked by falling stride, neighbours merged, and elements
// that lie in the burst just asked for are not asked for again.
//
//   BoxWalker walker;
//   LS_RETURN_IF_ERROR(walker.Start(record, base, tensor_bytes, burst_bits, seed));
//   uint64_t burst;
//   while (walker.Next(&burst)) ...;                 // address / burst bytes
//   walker.useful_bytes();                           // == walker.asked_bytes(), once all are walked
//
// A dim with stride 0 is read once and repeated on the way into the scratchpad. Rows of an indexed box are not known
// where values are not computed: row i is taken to be at (seed + i) golden sections of the tensor's rows, modulo their
// number, which spreads over them evenly and comes again in every run. A core's transfers count their rows on, so
// `seed` is how many it has gathered before.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "liveshape/trace.h"

namespace liveshape::npu {

class BoxWalker {
 public:
  Status Start(const ls_trace_dma& record, int64_t base, int64_t tensor_bytes, int burst_bits,
               uint64_t seed);
  bool Next(uint64_t* burst);

  int64_t asked_bytes() const { return asked_; }
  int64_t useful_bytes() const { return useful_; }

 private:
  struct Dim { int64_t extent, stride, index; };
  bool NextRun();  // to the next contiguous piece
  int64_t Row(int64_t i) const;

  std::array<Dim, LS_TRACE_MAX_RANK> dims_ = {};
  int rank_ = 0;
  int64_t run_bytes_ = 0;
  int64_t address_ = 0, first_ = 0;
  int burst_bits_ = 0;
  uint64_t next_burst_ = 1, last_burst_ = 0;  // of the current run; next > last: the run is over
  uint64_t emitted_ = ~uint64_t{0};
  bool more_ = false;
  int64_t asked_ = 0, useful_ = 0;
  // Indexed: dim 0 is outermost, its rows `gather_stride_` apart.
  int64_t gathered_ = 0, gather_index_ = 0, gather_stride_ = 0, gather_rows_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace liveshape::npu
