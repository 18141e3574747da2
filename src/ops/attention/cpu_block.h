// The two ways to compute attention; cpu.cc chooses by live dims.
#pragma once

#include "ops/attention/cpu_call.h"

namespace liveshape::cpu {

// Scratch: threads * BlockScratch::total() floats.
void BlockedAttention(const AttentionCall& call, ThreadPool& pool, std::byte* scratch);

// At most kDecodeRows rows, and last dims of k and v dense. Scratch: threads * ChunkScratch::total()
// floats, then PartialFloats for each (batch, group, chunk, row) and one more.
bool FitsDecode(const AttentionCall& call);
void DecodeAttention(const AttentionCall& call, ThreadPool& pool, std::byte* scratch);

}  // namespace liveshape::cpu
