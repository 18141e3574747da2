// Greedy decoding with a KV cache through the C++ API: a prompt of any length, then one token at a time.
//
//   liveshape compile models/demo/demo.pt2 -o demo.live
//   greedy demo.live 8 5 6 7          prints 8 tokens that follow 5 6 7
//
// The model has inputs tokens i64[B, S] and pos (an integer), and one output of logits f32[B, V] for the last token.
#include <liveshape/liveshape.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using liveshape::Artifact, liveshape::DType, liveshape::Session, liveshape::Status;
using liveshape::TensorRef;

namespace {

Status Decode(const char* model, long count, std::vector<int64_t> tokens) {
  LS_ASSIGN_OR_RETURN(auto artifact, Artifact::Load(model));
  LS_ASSIGN_OR_RETURN(auto session, Session::Create(artifact, liveshape::MakeCpuBackend()));
  int64_t position = 0;
  for (; count > 0; --count) {
    // The live shape is [1, length]: the prompt's at first, then [1, 1]. Nothing is rebuilt between.
    const auto length = static_cast<int64_t>(tokens.size());
    const TensorRef inputs[] = {{DType::kI64, tokens.data(), {1, length}},
                                {DType::kI64, &position, {}}};
    LS_RETURN_IF_ERROR(session->Run(inputs));
    const TensorRef& logits = session->output(0);
    const auto* values = static_cast<const float*>(logits.data);
    position += length;
    tokens = {std::max_element(values, values + logits.dims[1]) - values};
    std::printf("%lld ", static_cast<long long>(tokens[0]));
  }
  std::printf("\n");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: greedy MODEL.live COUNT TOKEN...\n");
    return 2;
  }
  std::vector<int64_t> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(std::atoll(argv[i]));
  const Status status = Decode(argv[1], std::atol(argv[2]), std::move(prompt));
  if (!status.ok()) std::fprintf(stderr, "greedy: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
