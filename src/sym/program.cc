// Running a shape program.
#include "sym/program.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sym/arith.h"
#include "sym/program_ops.h"

namespace liveshape::sym {
namespace {

// kCheck's place among the faults.
constexpr uint8_t kCheckFailed = 255;

double AsFloat(int64_t bits) { return std::bit_cast<double>(bits); }
int64_t Bits(double value) { return std::bit_cast<int64_t>(value); }

}  // namespace

void ShapeProgram::SetSymbols(std::span<const int64_t> values, std::span<int64_t> block) const {
  LS_CHECK(values.size() >= symbol_count_ && block.size() >= block_size_);
  std::copy_n(values.begin(), symbol_count_, block.begin());
  for (const auto& [slot, bits] : constants_) block[slot] = bits;
}

template <typename Fail>
bool ShapeProgram::Execute(const Section& section, int64_t* block, Fail&& fail) const {
  const Instruction* const code = code_.data();
  const Instruction* const end = code + section.end;
  for (const Instruction* in = code + section.begin; in != end;) {
    const int64_t a = block[in->a], b = block[in->b];
    int64_t& out = block[in->out];
    Fault fault = Fault::kNone;
    double f = 0;
    switch (in->op) {
      case Op::kMove: out = a; break;
      case Op::kAdd: fault = AddInt(a, b, &out); break;
      case Op::kMul: fault = MulInt(a, b, &out); break;
      case Op::kPow: fault = PowInt(a, b, &out); break;
      case Op::kFloorDiv: fault = FloorDivInt(a, b, &out); break;
      case Op::kCeilDiv: fault = CeilDivInt(a, b, &out); break;
      case Op::kMod: fault = ModInt(a, b, &out); break;
      case Op::kMin: out = std::min(a, b); break;
      case Op::kMax: out = std::max(a, b); break;
      case Op::kSelect: out = a != 0 ? b : block[in->c]; break;
      case Op::kEq: out = a == b; break;
      case Op::kNe: out = a != b; break;
      case Op::kLt: out = a < b; break;
      case Op::kLe: out = a <= b; break;
      case Op::kAnd: out = a != 0 && b != 0; break;
      case Op::kOr: out = a != 0 || b != 0; break;
      case Op::kNot: out = a == 0; break;
      case Op::kBitAnd: out = a & b; break;
      case Op::kBitOr: out = a | b; break;
      case Op::kShiftLeft: fault = ShiftLeftInt(a, b, &out); break;
      case Op::kShiftRight: fault = ShiftRightInt(a, b, &out); break;
      case Op::kFloatEq: out = AsFloat(a) == AsFloat(b); break;
      case Op::kFloatNe: out = AsFloat(a) != AsFloat(b); break;
      case Op::kFloatLt: out = AsFloat(a) < AsFloat(b); break;
      case Op::kFloatLe: out = AsFloat(a) <= AsFloat(b); break;
      case Op::kToFloat: out = Bits(static_cast<double>(a)); break;
      case Op::kFloatAdd: out = Bits(AsFloat(a) + AsFloat(b)); break;
      case Op::kFloatMul: out = Bits(AsFloat(a) * AsFloat(b)); break;
      case Op::kFloatDiv:
        fault = DivFloat(AsFloat(a), AsFloat(b), &f);
        out = Bits(f);
        break;
      case Op::kFloatPow:
        fault = PowFloat(AsFloat(a), AsFloat(b), &f);
        out = Bits(f);
        break;
      case Op::kFloatSqrt:
        fault = SqrtFloat(AsFloat(a), &f);
        out = Bits(f);
        break;
      case Op::kIntTrueDiv:
        fault = TrueDivInt(a, b, &f);
        out = Bits(f);
        break;
      case Op::kFloatMin: out = Bits(std::min(AsFloat(a), AsFloat(b))); break;
      case Op::kFloatMax: out = Bits(std::max(AsFloat(a), AsFloat(b))); break;
      case Op::kTruncToInt: fault = FloatToInt(std::trunc(AsFloat(a)), &out); break;
      case Op::kFloorToInt: fault = FloatToInt(std::floor(AsFloat(a)), &out); break;
      case Op::kCeilToInt: fault = FloatToInt(std::ceil(AsFloat(a)), &out); break;
      case Op::kRoundToInt: fault = FloatToInt(std::nearbyint(AsFloat(a)), &out); break;
      case Op::kJump: in = code + in->c; continue;
      case Op::kJumpIfZero: in = a == 0 ? code + in->c : in + 1; continue;
      case Op::kJumpIfNonZero: in = a != 0 ? code + in->c : in + 1; continue;
      case Op::kCheck:
        if (a == 0) return fail(*in, kCheckFailed);
        break;
    }
    if (fault != Fault::kNone) [[unlikely]]
      return fail(*in, static_cast<uint8_t>(fault));
    ++in;
  }
  return true;
}

Status ShapeProgram::Run(Stage stage, std::span<int64_t> block) const {
  LS_CHECK(block.size() >= block_size_);
  if (stage >= sections_.size()) return {};
  Status status = CheckRanges(stage, block);
  if (!status.ok()) return status;
  Execute(sections_[stage], block.data(), [&](const Instruction& at, uint8_t fault) {
    status = Failure(at, fault, block);
    return false;
  });
  return status;
}

Status ShapeProgram::CheckRanges(Stage stage, std::span<const int64_t> block) const {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const Symbol& s = symbols_[i];
    if (s.stage != stage || (s.lo <= block[i] && block[i] <= s.hi)) continue;
    const bool above = block[i] > s.hi;
    return OutOfRange("symbol `{}` would be {}, {} {}", s.display.empty() ? s.name : s.display,
                      block[i], above ? "above its bound" : "below its minimum",
                      above ? s.hi : s.lo);
  }
  return {};
}

Status ShapeProgram::Failure(const Instruction& at, uint8_t fault,
                             std::span<const int64_t> block) const {
  if (fault == kCheckFailed) return Status(Code::kOutOfRange, WithValues(messages_[at.c], block));
  const std::string& expression = slot_names_[at.out];
  std::string message = fmt::format("`{}` {}", expression, FaultText(static_cast<Fault>(fault)));
  const char* separator = " at ";
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const std::string& name = symbols_[i].display.empty() ? symbols_[i].name : symbols_[i].display;
    if (expression.find(name) == std::string::npos) continue;
    message += fmt::format("{}{}={}", separator, name, block[i]);
    separator = ", ";
  }
  return Status(Code::kOutOfRange, std::move(message));
}

// Replaces `{name}` by that symbol's value.
std::string ShapeProgram::WithValues(std::string_view message,
                                     std::span<const int64_t> block) const {
  std::string out;
  while (!message.empty()) {
    const size_t open = message.find('{');
    const size_t close = open == std::string_view::npos ? open : message.find('}', open);
    if (close == std::string_view::npos) return out.append(message);
    const std::string_view name = message.substr(open + 1, close - open - 1);
    const auto it = std::ranges::find_if(
        symbols_, [&](const Symbol& s) { return s.name == name || s.display == name; });
    out.append(message.substr(0, open));
    if (it == symbols_.end() || name.empty())
      out.append(message.substr(open, close - open + 1));
    else
      out += fmt::format("{}", block[it - symbols_.begin()]);
    message.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace liveshape::sym
