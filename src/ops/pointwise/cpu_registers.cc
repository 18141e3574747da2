#include "ops/pointwise/cpu_registers.h"

#include <algorithm>

namespace liveshape::cpu::pw {
namespace {

DType Stored(ChainCode code) {
  switch (code) {
    case ChainCode::kStoreF16: return DType::kF16;
    case ChainCode::kStoreBF16: return DType::kBF16;
    case ChainCode::kStoreBool: return DType::kBool;
    default: return DType::kF32;
  }
}

// One moment of a run: values are read, then one may be written.
struct Event {
  size_t step;
  int operands = 0;
  uint32_t reads[3] = {};
  bool writes = false;
  uint32_t value = 0;
  size_t size = 0;  // of an element
};

std::vector<Event> Events(const Program& program) {
  std::vector<Event> events;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.uniform()) continue;
    if (step.kind != Step::Kind::kChain) {
      events.push_back({.step = i,
                        .operands = step.operands,
                        .reads = {step.a, step.b, step.c},
                        .writes = true,
                        .value = step.value,
                        .size = SizeOf(step.dtype)});
      continue;
    }
    for (const ChainStep& op : step.chain) {
      Event event{.step = i, .value = op.a};
      event.writes = op.stores();
      event.operands = event.writes ? 0 : op.operands;
      event.reads[0] = op.a;
      event.reads[1] = op.b;
      event.size = SizeOf(Stored(op.code));
      events.push_back(event);
    }
  }
  return events;
}

}  // namespace

// Linear scan. A result may take over the register of an operand that dies with it, or died in the same chain, if
// elements have the same size: element i is read before it is written. Others wait for the next step.
void AssignRegisters(Program& program) {
  constexpr size_t kNever = ~size_t{0};
  const std::vector<Event> events = Events(program);
  std::vector<size_t> last_use(program.values, kNever), sizes(program.values, 0);
  for (size_t e = 0; e < events.size(); ++e)
    for (int k = 0; k < events[e].operands; ++k) last_use[events[e].reads[k]] = e;
  last_use[program.result] = kNever;
  program.registers_of.assign(program.values, kNoRegister);
  program.registers = 0;
  bool whole_number = false;
  for (const Step& step : program.steps) {
    if (!step.uniform() || !step.whole) continue;
    whole_number = true;
    sizes[step.value] = SizeOf(step.dtype);
    program.registers_of[step.value] = program.registers++;
  }
  const int numbers = program.registers;  // filled once, never reused
  struct Free {
    int reg;
    size_t size;  // of what lay there in this step; 0: nothing
  };
  std::vector<Free> free;
  size_t widest = 4, now = 0;
  int computed = 0, steps = 0;
  for (size_t e = 0; e < events.size(); ++e) {
    const Event& event = events[e];
    if (event.step != now)
      for (Free& f : free) f.size = 0;
    now = event.step;
    for (int k = 0; k < event.operands; ++k) {
      const uint32_t value = event.reads[k];
      if (last_use[value] != e || program.registers_of[value] < numbers) continue;
      last_use[value] = kNever;  // the same value twice is released once
      free.push_back({program.registers_of[value], sizes[value]});
    }
    if (!event.writes) continue;
    widest = std::max(widest, event.size);
    sizes[event.value] = event.size;
    auto found = std::find_if(free.rbegin(), free.rend(),
                              [&](const Free& f) { return f.size == 0 || f.size == event.size; });
    if (found == free.rend()) {
      free.push_back({program.registers++, 0});
      found = free.rbegin();
    }
    program.registers_of[event.value] = found->reg;
    free.erase(std::next(found).base());
    computed += program.steps[event.step].kind != Step::Kind::kLoad;
  }
  for (const Step& step : program.steps) widest = std::max(widest, SizeOf(step.dtype));
  for (Step& step : program.steps)
    if (step.kind != Step::Kind::kChain) step.reg = program.registers_of[step.value];
  program.register_bytes = widest * kTile;
  for (const Step& step : program.steps) steps += step.computes() || step.kind == Step::Kind::kIota;
  program.takes_rows = program.result_in_place && steps == 1;
  program.longest_row = computed == 1 && !whole_number ? kLongTile : kTile;
}

}  // namespace liveshape::cpu::pw
