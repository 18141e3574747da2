// A tile program: the loop nest of a kernel, with symbolic bounds, over what an NPU does with a tile. Every number in
// it is an expression over shape_args, loop variables and names given to expressions (lets). It knows no timing, no
// number of cores and no address.
//
//   loop i < ceil(N/T)                  N: a shape_arg; T: a let, chosen by the rule for tile sizes
//     item                              what follows is independent of what came before
//     dispatch
//     load a: box [min(T, N - i*T)] at i*T*4 into buffer a
//     load b ...
//     barrier loads
//     compute add [min(T, N - i*T)]: out, a, b
//     store ...
//     barrier tile
//
// lower/builder.h makes one, lower/schedule.h makes it ready to walk.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sym/expr.h"

namespace liveshape::npu {

using sym::Expr;

// Bytes into the version of a buffer whose turn it is.
struct Place {
  uint32_t buffer = 0;
  Expr offset = {};
};

// One dim of a DMA box; strides in bytes, of memory and of the buffer.
struct BoxDim { Expr extent, stride, buffer_stride; };

struct Dma {
  bool store = false;
  uint32_t tensor = 0;
  Place place = {};
  Expr offset = {};  // bytes from the tensor's base
  uint32_t element_bytes = 4;
  std::vector<BoxDim> box = {};
  std::optional<Place> index = {};  // dim 0 is gathered or scattered by the int64 values there
};

struct Compute {
  uint32_t code = 0;
  std::vector<Expr> extents = {};
  std::vector<Expr> arguments = {};
  std::vector<Place> operands = {};  // outputs first
};

struct Statement;

struct Block { std::vector<Statement> statements; };

struct Statement {
  enum class Kind : uint8_t {
    kLoop,          // `variable` from 0 to `expr` - 1
    kIf,            // `body` if `expr` is not 0
    kItem,          // the tiles that follow depend on none before
    kDispatch,      // a tile begins
    kDma,           // `dma`
    kCompute,       // `compute`
    kBarrierLoads,  // the loads of this tile are there
    kBarrierTile,   // the tile is done
  };
  Kind kind;
  Expr variable = {};
  Expr expr = {};
  Block body = {};
  Dma dma = {};
  Compute compute = {};
};

// A name for an expression, made where its parts are known: keeps programs small and generated source readable.
struct Let { Expr variable, value; };

// A division by zero in a tile program gives 0: what is read at an empty extent is behind a loop that is not run.
struct TileProgram {
  std::unique_ptr<sym::Table> table;  // of its own: loop variables are symbols
  std::vector<Expr> shape_args;       // symbols of the table, in argument order
  std::vector<Let> lets;
  Expr variant;  // which tile size: the rule, over shape_args
  Block body;
};

}  // namespace liveshape::npu
