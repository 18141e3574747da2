#include "backends/webgpu/numbers.h"

#include <bit>

namespace liveshape::webgpu {

void Numbers::Begin(sym::Table& table, uint32_t alignment) {
  builder_ = std::make_unique<sym::ProgramBuilder>(table);
  alignment_ = alignment;
}

uint32_t Numbers::BytesOf(std::span<const Param> params) {
  uint32_t words = 0;
  for (const Param& p : params) words += p.kind == Param::Kind::kWide ? 2 : 1;
  return std::max(1u, (words + 3) / 4) * 16;  // a uniform struct is a multiple of 16 bytes
}

uint32_t Numbers::AddParams(std::span<const Param> params) {
  std::vector<uint64_t> key;
  std::vector<Source> sources;
  uint32_t word = 0;
  for (const Param& p : params) {
    const bool own = static_cast<bool>(p.expr);
    const uint32_t slot = own ? Slot(p.expr) : p.slot;
    key.push_back((uint64_t{slot} << 8) | (uint64_t{own} << 4) | static_cast<uint64_t>(p.kind));
    sources.push_back({word, slot, own, p.kind});
    word += p.kind == Param::Kind::kWide ? 2 : 1;
  }
  const auto [place, added] =
      places_.try_emplace(std::move(key), static_cast<uint32_t>(words_.size() * 4));
  if (!added) return place->second;
  for (Source& source : sources) {
    source.word += place->second / 4;
    sources_.push_back(source);
  }
  const uint32_t bytes = (BytesOf(params) + alignment_ - 1) / alignment_ * alignment_;
  words_.resize(words_.size() + bytes / 4);
  return place->second;
}

Status Numbers::Finish(gpu::Device& device) {
  program_ = builder_->Finish();
  builder_.reset();
  own_.assign(program_.block_size(), 0);
  written_ = words_;
  buffer_ = device.CreateBuffer(words_.size() * 4, gpu::BufferUse::kUniform, "params");
  return {};
}

Status Numbers::Bind(gpu::Device& device, std::span<const int64_t> block) {
  program_.SetSymbols(block.first(program_.symbol_count()), own_);
  for (sym::Stage stage = 0; stage < program_.stage_count(); ++stage)
    LS_RETURN_IF_ERROR(program_.Run(stage, own_));
  for (const Source& source : sources_) {
    const int64_t value = source.own ? own_[source.slot] : block[source.slot];
    switch (source.kind) {
      case Param::Kind::kWord: words_[source.word] = static_cast<uint32_t>(value); break;
      case Param::Kind::kWide:
        words_[source.word] = static_cast<uint32_t>(value);
        words_[source.word + 1] = static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
        break;
      case Param::Kind::kFloat:
        words_[source.word] =
            std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value)));
        break;
    }
  }
  if (!fresh_ && words_ == written_) return {};
  fresh_ = false;
  written_ = words_;
  device.Write(buffer_, 0, std::as_bytes(std::span(words_)));
  return {};
}

}  // namespace liveshape::webgpu
