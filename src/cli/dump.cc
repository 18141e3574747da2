// liveshape dump: what is in a .live (graph, symbols, plan per backend), a .pt2 (as the importer reads it) or a .pte.
#include "cli/dump.h"

#include <cstring>

#include "cli/common.h"
#include "cli/load.h"
#include "cli/options.h"
#include "import/import.h"
#include "import/pt2/dump.h"
#include "import/pte/program.h"
#include "ir/dot.h"
#include "ir/graph.h"

namespace liveshape::cli {
namespace {

bool IsZip(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "PK\x03\x04", 4) == 0;
}

Result<std::string> Pt2Dump(const std::shared_ptr<const MappedFile>& file, DumpFormat format) {
  LS_ASSIGN_OR_RETURN(auto archive, pt2::Pt2Archive::Open(file->bytes()));
  if (format == DumpFormat::kJson) return pt2::DumpJson(archive);
  if (format == DumpFormat::kText) return pt2::DumpText(archive);
  LS_ASSIGN_OR_RETURN(auto imported, ImportPt2(archive, file));
  return ir::ToDot(*imported.graph);
}

// What the file is, its first bytes say; its name may be any.
Result<std::string> Dump(const std::string& path, DumpFormat format) {
  LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  const bool zip = IsZip(file->bytes());
  if (zip || pte::IsPte(file->bytes())) {
    auto text = zip ? Pt2Dump(file, format) : PteDump(file, format);
    if (!text.ok()) return std::move(text).status().Prefixed(path);
    return text;
  }
  LS_ASSIGN_OR_RETURN(auto artifact, LoadDescription(path));
  return ArtifactDump(artifact, format);
}

}  // namespace

int RunDump(const DumpOptions& options) {
  const DumpFormat format = options.format == "json"  ? DumpFormat::kJson
                            : options.format == "dot" ? DumpFormat::kDot
                                                      : DumpFormat::kText;
  const auto text = Dump(options.file, format);
  if (!text.ok()) return Fail("dump", text.status(), format == DumpFormat::kJson);
  fmt::print("{}{}", *text, format == DumpFormat::kJson ? "\n" : "");
  return kGood;
}

}  // namespace liveshape::cli
