// A C++ program as a user of ExecuTorch writes it: nothing of Liveshape but the library it links.
//
//   run_module model.pte THREADS 2,8 in.bin out.bin 5,8 in2.bin out2.bin ...
//
// loads with a backend option, then runs `forward` of one Module once for each triple: a float input of these sizes, read from a file; output 0 is
// written. Prints the sizes of each output, or `error 0x12` and goes on.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace {

using executorch::aten::SizesType;
using executorch::runtime::Error;

std::vector<SizesType> ReadSizes(const char* text) {
  std::vector<SizesType> sizes;
  std::istringstream stream(text);
  for (std::string size; std::getline(stream, size, ',');) sizes.push_back(std::stoi(size));
  return sizes;
}

std::vector<float> ReadFloats(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const float* begin = reinterpret_cast<const float*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(float)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6 || argc % 3 != 0) return 2;
  executorch::extension::Module module(argv[1]);
  executorch::runtime::BackendOptions<1> options;
  executorch::runtime::LoadBackendOptionsMap by_backend;
  if (options.set_option("threads", std::stoi(argv[2])) != Error::Ok ||
      by_backend.set_options("LiveshapeBackend", options.view()) != Error::Ok ||
      module.load(by_backend) != Error::Ok)
    return 1;
  for (int i = 3; i < argc; i += 3) {
    std::vector<float> data = ReadFloats(argv[i + 1]);
    auto input = executorch::extension::from_blob(data.data(), ReadSizes(argv[i]));
    const auto outputs = module.forward(input);
    if (!outputs.ok()) {
      std::printf("error 0x%x\n", static_cast<unsigned>(outputs.error()));
      continue;
    }
    const auto& result = outputs->at(0).toTensor();
    for (const SizesType size : result.sizes()) std::printf("%d ", static_cast<int>(size));
    std::printf("\n");
    std::ofstream(argv[i + 2], std::ios::binary)
        .write(static_cast<const char*>(result.const_data_ptr()),
               static_cast<std::streamsize>(result.nbytes()));
  }
  return 0;
}
