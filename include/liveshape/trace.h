/* What a trace producer is: a shared library with one entry a kernel, each of which walks its tiles at the sizes it
 * is given and tells a sink what an NPU would do. It holds no timing, no addresses and no number of cores, and imports
 * nothing of Liveshape.
 *
 *   void* so = dlopen("model.so", RTLD_NOW);
 *   ls_trace_get_library_fn get = (ls_trace_get_library_fn)dlsym(so, LS_TRACE_ENTRY);
 *   const ls_trace_library* library = get(LS_TRACE_ABI_VERSION);          // null: made for another version
 *   const int64_t shape_args[] = {1000};
 *   ls_trace_sink sink = {.context = &counter, .dispatch = OnDispatch, .dma = OnDma,
 *                         .compute = OnCompute, .barrier = OnBarrier};
 *   int status = library->kernels[0].walk(shape_args, 1, &sink);          // 0; else what a callback returned
 *
 * A kernel's work is a list of items, an item a list of tiles, a tile a list of records, in this order:
 *
 *   dispatch                the tile begins
 *   dma (load) ...          start to move boxes of tensors into scratchpad buffers; nobody waits yet
 *   barrier (loads)         the loads of this tile are there
 *   compute ...             in order; reads and writes buffers
 *   dma (store) ...         after the computes before it, moves a box back
 *   barrier (tile)          the tile is done: its stores are in memory
 *
 * Items are independent: any core may take one, at any time. Tiles of an item run on one core and in order, since they
 * share buffers (an accumulator, a running maximum); nothing else orders tiles. A buffer has versions, so that a tile
 * may load while the one before it computes: a load into a version waits until nobody uses it any more. All numbers are
 * live ones; a tail tile has smaller extents and no padding is moved.
 */
#ifndef LIVESHAPE_TRACE_H_
#define LIVESHAPE_TRACE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_TRACE_ABI_VERSION 1
#define LS_TRACE_ENTRY "ls_trace_get_library"
#define LS_TRACE_MAX_RANK 6
#define LS_TRACE_MAX_OPERANDS 12

/* Part of the scratchpad: `offset` bytes into one version of a buffer of the kernel. */
typedef struct ls_trace_place {
  uint32_t buffer;
  uint32_t version;
  int64_t offset;
} ls_trace_place;

typedef struct ls_trace_dispatch {
  int64_t tile;     /* 0, 1, 2, ... over the walk */
  int64_t item;     /* tiles of one item come one after another */
  uint32_t variant; /* which of the kernel's tile sizes was chosen; the same for the whole walk */
  uint32_t reserved;
} ls_trace_dispatch;

/* An N-D box. Element (i0, i1, ...) lies at `offset + sum(i * stride)` bytes from the tensor's base, and in the buffer at
 * `place.offset + sum(i * buffer_stride)`. A stride may be 0 on the memory side of a load (a broadcast) or negative.
 * Where `indexed` is 1, dim 0 is gathered (or scattered): i0 is replaced by the i0-th of the int64 values at `index`. */
typedef struct ls_trace_dma {
  uint32_t store;  /* 0: memory to scratchpad */
  uint32_t tensor; /* argument of the kernel */
  ls_trace_place place;
  int64_t offset;
  uint32_t element_bytes;
  uint32_t rank;
  uint32_t indexed;
  uint32_t reserved;
  ls_trace_place index;
  int64_t extent[LS_TRACE_MAX_RANK]; /* beyond rank: 0 */
  int64_t stride[LS_TRACE_MAX_RANK];
  int64_t buffer_stride[LS_TRACE_MAX_RANK];
} ls_trace_dma;

/* A tile kernel over buffers. What it computes, and on which unit, the tile program says under `code`. */
typedef struct ls_trace_compute {
  uint32_t code; /* index into the kernel's codes */
  uint32_t rank;
  int64_t extent[LS_TRACE_MAX_RANK]; /* live extents: the cost is a function of (code, extents) */
  int64_t argument
      [LS_TRACE_MAX_RANK]; /* numbers that values need and cost does not: positions, first/last flags */
  uint32_t operands;
  uint32_t reserved;
  ls_trace_place operand[LS_TRACE_MAX_OPERANDS]; /* outputs first */
} ls_trace_compute;

enum { LS_TRACE_BARRIER_LOADS = 0, LS_TRACE_BARRIER_TILE = 1 };

typedef struct ls_trace_barrier {
  uint32_t kind;
  uint32_t reserved;
} ls_trace_barrier;

/* A callback returns 0, or a number that ends the walk and that `walk` returns. Records live for the call only. */
typedef struct ls_trace_sink {
  void* context;
  int (*dispatch)(void* context, const ls_trace_dispatch* record);
  int (*dma)(void* context, const ls_trace_dma* record);
  int (*compute)(void* context, const ls_trace_compute* record);
  int (*barrier)(void* context, const ls_trace_barrier* record);
} ls_trace_sink;

/* -1: `n` is not the kernel's number of shape_args. -2: a number overflowed. */
typedef int (*ls_trace_walk_fn)(const int64_t* shape_args, int32_t n, const ls_trace_sink* sink);

typedef struct ls_trace_buffer {
  const char* name;
  int64_t bytes; /* of one version */
  uint32_t versions;
  uint32_t reserved;
} ls_trace_buffer;

typedef struct ls_trace_kernel {
  const char* name;
  int32_t shape_args;
  int32_t tensors;
  int32_t codes;
  int32_t variants;
  int32_t buffers; /* of every variant: the same buffers, other sizes */
  int32_t reserved;
  const ls_trace_buffer* buffer; /* [variant * buffers + b] */
  ls_trace_walk_fn walk;
} ls_trace_kernel;

typedef struct ls_trace_library {
  uint32_t abi_version;
  int32_t kernels;
  const ls_trace_kernel* kernel;
  const char* digest; /* of the tile programs it was made from */
} ls_trace_library;

typedef const ls_trace_library* (*ls_trace_get_library_fn)(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif
