// pt2_print [--text] [--crc] FILE: what the .pt2 reader sees, as JSON or text; exit 2 with the reason if it refuses.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "import/pt2/archive.h"
#include "import/pt2/dump.h"

int main(int argc, char** argv) {
  bool text = false, crc = false;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--text")
      text = true;
    else if (word == "--crc")
      crc = true;
    else
      path = word;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "pt2_print: cannot read `%s`\n", path.c_str());
    return 2;
  }
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  auto archive = liveshape::pt2::Pt2Archive::Open(std::as_bytes(std::span(bytes)));
  liveshape::Status status = archive.ok() && crc ? archive->CheckWeightCrcs() : archive.status();
  if (!status.ok()) {
    std::fprintf(stderr, "pt2_print: %s\n", status.message().c_str());
    return 2;
  }
  const std::string out =
      text ? liveshape::pt2::DumpText(*archive) : liveshape::pt2::DumpJson(*archive);
  std::fwrite(out.data(), 1, out.size(), stdout);
  return 0;
}
