// What rows in pieces compute; sums are kept in double, as the CPU's kernels do.
#include <bit>
#include <cmath>
#include <limits>

#include "backends/npu/lower/pieces.h"
#include "backends/npu/values/element.h"

namespace liveshape::npu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// row(state, at): at(l) is where element l of that row lies in the piece.
template <typename Row>
void ForEachRow(const PieceNumbers& p, PieceState* states, const Row& row) {
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t i = 0; i < p.inner; ++i)
      row(states[o * p.inner + i],
          [&p, o, i](int64_t l) { return (o * p.length + l) * p.inner + i; });
}

// A function of the piece, its states and, by number, its operands.
template <typename Row>
ValueFunction RowFunction(size_t state_at, Row row) {
  return [state_at, row](const ValueCall& call) {
    const PieceNumbers p = PieceNumbers::Of(call.record);
    ForEachRow(p, call.as<PieceState>(state_at),
               [&](PieceState& state, const auto& at) { row(call, p, state, at); });
    return Status();
  };
}

// Integers keep their 64 bits in a state.
int64_t Bits(double value) { return std::bit_cast<int64_t>(value); }
double FromBits(int64_t value) { return std::bit_cast<double>(value); }

}  // namespace

// a: the largest so far; b: the sum of exp(x - a).
ValueFunction SoftmaxGather(DType x) {
  return RowFunction(
      0, [x](const ValueCall& call, const PieceNumbers& p, PieceState& s, const auto& at) {
        if (p.first) s = {-kInfinity, 0, 0, 0};
        double most = s.a;
        for (int64_t l = 0; l < p.length; ++l)
          most = std::fmax(most, LoadNumber(x, call.operand[1], at(l)));
        if (most != s.a) s.b *= std::exp(s.a - most);
        s.a = most;
        for (int64_t l = 0; l < p.length; ++l) {
          const double value = LoadNumber(x, call.operand[1], at(l));
          s.b += value == -kInfinity ? 0 : std::exp(value - most);
        }
      });
}

ValueFunction SoftmaxApply(DType x, bool masked_zero, bool log) {
  return RowFunction(1, [x, masked_zero, log](const ValueCall& call, const PieceNumbers& p,
                                              PieceState& s, const auto& at) {
    for (int64_t l = 0; l < p.length; ++l) {
      const double shifted = LoadNumber(x, call.operand[2], at(l)) - s.a;
      double y = log ? shifted - std::log(s.b) : std::exp(shifted) / s.b;
      if (s.a == -kInfinity && masked_zero && s.b == 0) y = 0;
      StoreNumber(x, call.operand[0], at(l), y);
    }
  });
}

// a: the sum of squares.
ValueFunction RmsGather(DType x) {
  return RowFunction(
      0, [x](const ValueCall& call, const PieceNumbers& p, PieceState& s, const auto& at) {
        if (p.first) s = {};
        for (int64_t l = 0; l < p.length; ++l) {
          const double value = LoadNumber(x, call.operand[1], at(l));
          s.a += value * value;
        }
      });
}

ValueFunction RmsApply(DType x, double eps, bool weight) {
  return RowFunction(1, [x, eps, weight](const ValueCall& call, const PieceNumbers& p,
                                         PieceState& s, const auto& at) {
    const double scale = 1 / std::sqrt(s.a / static_cast<double>(p.total) + eps);
    for (int64_t l = 0; l < p.length; ++l) {
      StoreNumber(x, call.operand[0], at(l), LoadNumber(x, call.operand[2], at(l)) * scale);
      if (weight)  // of the rounded value, as torch has it
        StoreNumber(x, call.operand[0], at(l),
                    LoadNumber(x, call.operand[0], at(l)) * LoadNumber(x, call.operand[3], l));
    }
  });
}

// a: the mean so far; b: the sum of squared distances to it. Pieces are merged as Chan, Golub and LeVeque do.
ValueFunction LayerGather(DType x) {
  return RowFunction(
      0, [x](const ValueCall& call, const PieceNumbers& p, PieceState& s, const auto& at) {
        const double length = static_cast<double>(p.length), before = static_cast<double>(p.start);
        double mean = 0, squares = 0;
        for (int64_t l = 0; l < p.length; ++l) mean += LoadNumber(x, call.operand[1], at(l));
        mean /= length;
        for (int64_t l = 0; l < p.length; ++l) {
          const double distance = LoadNumber(x, call.operand[1], at(l)) - mean;
          squares += distance * distance;
        }
        if (p.first) s = {};
        const double delta = mean - s.a, all = before + length;
        s.a += delta * length / all;
        s.b += squares + delta * delta * before * length / all;
      });
}

ValueFunction LayerApply(DType x, double eps, bool weight, bool bias) {
  return RowFunction(1, [x, eps, weight, bias](const ValueCall& call, const PieceNumbers& p,
                                               PieceState& s, const auto& at) {
    const double scale = 1 / std::sqrt(s.b / static_cast<double>(p.total) + eps);
    for (int64_t l = 0; l < p.length; ++l) {
      double y = (LoadNumber(x, call.operand[2], at(l)) - s.a) * scale;
      if (weight) y *= LoadNumber(x, call.operand[3], l);
      if (bias) y += LoadNumber(x, call.operand[weight ? 4 : 3], l);
      StoreNumber(x, call.operand[0], at(l), y);
    }
  });
}

// a: the sum so far.
ValueFunction CumsumApply(DType x, DType out) {
  return RowFunction(
      1, [x, out](const ValueCall& call, const PieceNumbers& p, PieceState& s, const auto& at) {
        if (p.first) s = {};
        for (int64_t l = 0; l < p.length; ++l)
          if (IsFloat(x)) {
            s.a += LoadNumber(x, call.operand[2], at(l));
            if (SizeOf(x) == 2) s.a = static_cast<float>(s.a);
            StoreNumber(out, call.operand[0], at(l), s.a);
          } else {
            const auto sum = static_cast<uint64_t>(Bits(s.a)) +
                             static_cast<uint64_t>(LoadInteger(x, call.operand[2], at(l)));
            s.a = FromBits(static_cast<int64_t>(sum));
            StoreInteger(out, call.operand[0], at(l), static_cast<int64_t>(sum));
          }
      });
}

// a: what was made of the elements so far; b: 1 where a NaN has won.
ValueFunction ReduceGather(DType x, const std::string& kind) {
  const bool sum = kind == "sum" || kind == "mean", largest = kind == "max";
  if (kind == "any" || kind == "all")
    return RowFunction(0, [x, any = kind == "any"](const ValueCall& call, const PieceNumbers& p,
                                                   PieceState& s, const auto& at) {
      if (p.first) s.a = any ? 0 : 1;
      for (int64_t l = 0; l < p.length; ++l) {
        const bool truth = IsFloat(x) ? LoadNumber(x, call.operand[1], at(l)) != 0
                                      : LoadInteger(x, call.operand[1], at(l)) != 0;
        s.a = any ? s.a != 0 || truth : s.a != 0 && truth;
      }
    });
  if (IsFloat(x))
    return RowFunction(0, [x, sum, kind, largest](const ValueCall& call, const PieceNumbers& p,
                                                  PieceState& s, const auto& at) {
      const bool product = kind == "prod";
      if (p.first) s.a = sum ? 0 : product ? 1 : largest ? -kInfinity : kInfinity;
      for (int64_t l = 0; l < p.length; ++l) {
        const double v = LoadNumber(x, call.operand[1], at(l));
        if (sum)
          s.a += v;
        else if (product)
          s.a *= v;
        else if (s.a == s.a && (v != v || (largest ? v > s.a : v < s.a)))
          s.a = v;
      }
    });
  return RowFunction(0, [x, sum, kind, largest](const ValueCall& call, const PieceNumbers& p,
                                                PieceState& s, const auto& at) {
    const bool product = kind == "prod";
    int64_t a = Bits(s.a);
    if (p.first)
      a = sum       ? 0
          : product ? 1
          : largest ? std::numeric_limits<int64_t>::min()
                    : std::numeric_limits<int64_t>::max();
    for (int64_t l = 0; l < p.length; ++l) {
      const int64_t v = LoadInteger(x, call.operand[1], at(l));
      const auto wide = static_cast<uint64_t>(a), other = static_cast<uint64_t>(v);
      a = sum       ? static_cast<int64_t>(wide + other)
          : product ? static_cast<int64_t>(wide * other)
          : largest ? std::max(a, v)
                    : std::min(a, v);
    }
    s.a = FromBits(a);
  });
}

ValueFunction ReduceFinish(DType x, DType out, const std::string& kind) {
  const bool truth = kind == "any" || kind == "all";
  return [x, out, truth, mean = kind == "mean"](const ValueCall& call) {
    const PieceNumbers p = PieceNumbers::Of(call.record);
    for (int64_t r = 0; r < p.outer * p.inner; ++r) {
      const double a = call.as<PieceState>(1)[r].a;
      if (truth)
        call.as<uint8_t>(0)[r] = a != 0;
      else if (IsFloat(x))
        StoreNumber(out, call.operand[0], r, mean ? a / static_cast<double>(p.total) : a);
      else
        StoreInteger(out, call.operand[0], r, Bits(a));
    }
    return Status();
  };
}

// a: the best so far, b: where it is; the first of equals wins, a NaN over all.
ValueFunction ArgGather(DType x, bool largest) {
  return RowFunction(
      0, [x, largest](const ValueCall& call, const PieceNumbers& p, PieceState& s, const auto& at) {
        for (int64_t l = 0; l < p.length; ++l) {
          const bool begins = p.first && l == 0;
          bool better;
          double value;
          if (IsFloat(x)) {
            value = LoadNumber(x, call.operand[1], at(l));
            better = s.a == s.a && (value != value || (largest ? value > s.a : value < s.a));
          } else {
            const int64_t integer = LoadInteger(x, call.operand[1], at(l));
            value = FromBits(integer);
            better = largest ? integer > Bits(s.a) : integer < Bits(s.a);
          }
          if (begins || better) s = {value, FromBits(p.start + l), 0, 0};
        }
      });
}

ValueFunction ArgFinish() {
  return [](const ValueCall& call) {
    const PieceNumbers p = PieceNumbers::Of(call.record);
    for (int64_t r = 0; r < p.outer * p.inner; ++r)
      call.as<int64_t>(0)[r] = Bits(call.as<PieceState>(1)[r].b);
    return Status();
  };
}

}  // namespace liveshape::npu
