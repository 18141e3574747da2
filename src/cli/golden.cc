#include "cli/golden.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/common.h"
#include "import/pt2/json.h"

namespace liveshape::cli {
namespace {

using pt2::Json;
using pt2::JsonAt;

Result<Point> ReadShape(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(const pt2::JsonObject* members, at.Object());
  Point point;
  for (const auto& member : *members) {
    LS_ASSIGN_OR_RETURN(int64_t value, at.At(member).Int());
    point.emplace_back(member.key, value);
  }
  return point;
}

class Reader {
 public:
  explicit Reader(std::string directory) : directory_(std::move(directory)) {}

  Result<Golden> Read(const JsonAt& root) const {
    LS_ASSIGN_OR_RETURN(int64_t version, pt2::ReadMember(root, "version", pt2::ReadInt));
    if (version != 1) return root.Error(Code::kUnsupported, "version {} (1 is known)", version);
    Golden golden;
    LS_ASSIGN_OR_RETURN(golden.model, pt2::ReadMember(root, "model", pt2::ReadString));
    LS_ASSIGN_OR_RETURN(golden.tolerance, pt2::ReadMember(root, "tolerance", pt2::ReadDouble));
    if (!(golden.tolerance >= 0) || std::isinf(golden.tolerance))
      return root.Error(Code::kInvalidArgument, "tolerance is not a finite number >= 0");
    LS_ASSIGN_OR_RETURN(JsonAt points, root.Get("points"));
    LS_ASSIGN_OR_RETURN(golden.points,
                        pt2::ReadList(points, [&](const JsonAt& at) { return ReadPoint(at); }));
    if (golden.points.empty())
      return points.Error(Code::kInvalidArgument, "no points: nothing to compare with");
    return golden;
  }

 private:
  Result<GoldenPoint> ReadPoint(const JsonAt& at) const {
    GoldenPoint point;
    LS_ASSIGN_OR_RETURN(point.shape, pt2::ReadMember(at, "shape", ReadShape));
    LS_ASSIGN_OR_RETURN(JsonAt steps, at.Get("steps"));
    LS_ASSIGN_OR_RETURN(point.steps, pt2::ReadList(steps, [&](const JsonAt& step) {
                          return ReadStep(step, point.shape);
                        }));
    return point;
  }

  Result<GoldenStep> ReadStep(const JsonAt& at, const Point& shape) const {
    GoldenStep step;
    LS_ASSIGN_OR_RETURN(std::optional<JsonAt> own, at.Find("shape"));
    step.shape = shape;
    if (own) {
      LS_ASSIGN_OR_RETURN(step.shape, ReadShape(*own));
    }
    const auto tensor = [&](const JsonAt& entry) { return ReadTensor(entry); };
    LS_ASSIGN_OR_RETURN(JsonAt inputs, at.Get("inputs"));
    LS_ASSIGN_OR_RETURN(step.given, pt2::ReadList(inputs, tensor));
    LS_ASSIGN_OR_RETURN(JsonAt outputs, at.Get("outputs"));
    LS_ASSIGN_OR_RETURN(step.outputs, pt2::ReadList(outputs, tensor));
    return step;
  }

  Result<GoldenTensor> ReadTensor(const JsonAt& at) const {
    GoldenTensor tensor;
    LS_ASSIGN_OR_RETURN(tensor.name, pt2::ReadMember(at, "name", pt2::ReadString));
    LS_ASSIGN_OR_RETURN(std::string file, pt2::ReadMember(at, "file", pt2::ReadString));
    LS_ASSIGN_OR_RETURN(std::optional<JsonAt> hint, at.Find("dtype"));
    NpyOptions options;
    if (hint) {
      LS_ASSIGN_OR_RETURN(std::string dtype, hint->String());
      if (dtype != "bfloat16")
        return hint->Error(Code::kUnsupported, "`{}` (only bfloat16 needs a hint)", dtype);
      options.uint16_is_bf16 = true;
    }
    const std::filesystem::path path(file);
    bool outside = path.is_absolute() || file.empty() || file.find('\0') != std::string::npos;
    for (const auto& part : path) outside |= part == "..";
    if (outside)
      return at.Error(Code::kInvalidArgument, "file `{}` is not below the golden directory", file);
    LS_ASSIGN_OR_RETURN(tensor.file, NpyFile::Open(directory_ + "/" + file, options));
    return tensor;
  }

  std::string directory_;
};

}  // namespace

double GoldenPoint::Volume() const {
  const auto volume = [](const Point& point) {
    double product = 1;
    for (const auto& [name, value] : point) product *= static_cast<double>(value) + 1;
    return product;
  };
  double largest = volume(shape);
  for (const GoldenStep& step : steps) largest = std::max(largest, volume(step.shape));
  return largest;
}

Result<Golden> Golden::Load(const std::string& directory) {
  const std::string path = directory + "/golden.json";
  LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  LS_ASSIGN_OR_RETURN(pt2::JsonDocument document, pt2::ParseJson(text, path));
  return Reader(directory).Read(JsonAt(path, document.root));
}

Status Golden::ArrangeInputs(const Artifact& artifact) {
  for (GoldenPoint& point : points)
    for (GoldenStep& step : point.steps) {
      step.inputs.assign(artifact.inputs().size(), {});
      std::vector<bool> given(artifact.inputs().size(), false);
      for (const GoldenTensor& tensor : step.given) {
        LS_ASSIGN_OR_RETURN(size_t input, FindInput(artifact, tensor.name));
        if (given[input])
          return InvalidArgument("golden gives input `{}` twice at {}", tensor.name,
                                 ToString(step.shape));
        step.inputs[input] = tensor.file.tensor();
        given[input] = true;
      }
      for (size_t i = 0; i < given.size(); ++i)
        if (!given[i])
          return InvalidArgument("golden has no input `{}` at {}", artifact.inputs()[i].name,
                                 ToString(step.shape));
      if (step.outputs.size() != artifact.outputs().size()) {
        return InvalidArgument(
            "golden has {} outputs at {}, the model has {}: made from another model?",
            step.outputs.size(), ToString(step.shape), artifact.outputs().size());
      }
    }
  return {};
}

}  // namespace liveshape::cli
