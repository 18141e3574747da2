#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "import/pt2/archive.h"
#include "import/pt2/dump.h"
#include "import/pt2/json.h"
#include "import/pt2/read.h"
#include "import/pt2/zip_builder.h"

namespace liveshape::pt2 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- the smallest archive: y = x * w, x f32[s0, 2] -----------------------------------------------

constexpr std::string_view kTensor =
    R"({"dtype":7,"sizes":[SIZES],"requires_grad":false,"device":{"type":"cpu","index":null},)"
    R"("strides":[STRIDES],"storage_offset":{"as_int":OFFSET},"layout":7})";

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << "nothing to replace: " << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

std::string Tensor(std::string_view sizes, std::string_view strides,
                   std::string_view offset = "0") {
  return Replaced(Replaced(Replaced(std::string(kTensor), "SIZES", sizes), "STRIDES", strides),
                  "OFFSET", offset);
}

const std::string kLive = Tensor(
    R"j({"as_expr":{"expr_str":"Symbol('s0', positive=True, integer=True)","hint":{"as_int":4}}},{"as_int":2})j",
    R"({"as_int":2},{"as_int":1})");
const std::string kWeight = Tensor(R"({"as_int":2})", R"({"as_int":1})");

std::string Model() {
  return R"({"schema_version":{"major":8,"minor":20},"verifiers":["ATEN"],"torch_version":"2.13.0","opset_version":{"aten":10},)"
         R"("range_constraints":{"s0":{"min_val":2,"max_val":9223372036854775806},"4*s0":{"min_val":null,"max_val":null}},)"
         R"("guards_code":["L['x'].size()[0] % 4 == 0"],"graph_module":{"graph":{)"
         R"("inputs":[{"as_tensor":{"name":"p_w"}},{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"mul"}}],)"
         R"("nodes":[{"target":"torch.ops.aten.mul.Tensor","inputs":[{"name":"self","arg":{"as_tensor":{"name":"x"}},"kind":1},)"
         R"({"name":"other","arg":{"as_tensor":{"name":"p_w"}},"kind":1}],"outputs":[{"as_tensor":{"name":"mul"}}],)"
         R"("metadata":{"stack_trace":"File \"/home/me/m.py\", line 12, in forward\n    return x * self.w"},"name":"mul"}],)"
         R"("tensor_values":{"p_w":)" +
         kWeight + R"(,"x":)" + kLive + R"(,"mul":)" + kLive +
         R"(},"sym_int_values":{},"sym_bool_values":{}},)"
         R"("signature":{"input_specs":[{"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},)"
         R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[{"user_output":{"arg":{"as_tensor":{"name":"mul"}}}}]},)"
         R"("module_call_graph":[]}})";
}

std::string Config(std::string_view meta, std::string_view pickle = "false") {
  return fmt::format(
      R"({{"config":{{"w":{{"path_name":"weight_0","is_param":true,"use_pickle":{},"tensor_meta":{}}}}}}})",
      pickle, meta);
}

struct Parts {
  std::string model = Model(), config = Config(kWeight), weight = std::string(8, '\1'), extra;
};

std::string File(const Parts& parts) {
  ZipBuilder zip;
  ZipBuilder::Entry entry;
  entry.name = "m/data/weights/weight_0";
  entry.data = parts.weight;
  entry.data_descriptor = true;
  zip.Add(entry).Add("m/data/weights/model_weights_config.json", parts.config);
  zip.Add("m/models/model.json", parts.model)
      .Add("m/byteorder", "little")
      .Add("m/archive_version", "0");
  if (!parts.extra.empty()) zip.Add("m/extra/liveshape.json", parts.extra);
  return zip.Finish();
}

std::string Error(const std::string& file) {
  auto archive = Pt2Archive::Open(Bytes(file));
  return archive.ok() ? "accepted" : archive.status().message();
}
std::string ModelError(std::string_view from, std::string_view to) {
  Parts parts;
  parts.model = Replaced(parts.model, from, to);
  return Error(File(parts));
}
std::string ConfigError(const std::string& config) {
  Parts parts;
  parts.config = config;
  return Error(File(parts));
}

TEST(Pt2, ReadsTheSmallestArchive) {
  const std::string file = File({});
  auto archive = Pt2Archive::Open(Bytes(file));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  const Program& program = archive->program();
  EXPECT_EQ(program.dialect, "ATEN");
  EXPECT_EQ(*program.range_constraints.at("s0").hi, 9223372036854775806)
      << "exact, not through a double";
  EXPECT_FALSE(program.range_constraints.at("4*s0").lo.has_value());
  EXPECT_EQ(program.guards_code[0], "L['x'].size()[0] % 4 == 0");
  ASSERT_EQ(program.graph.nodes.size(), 1u);
  const Node& mul = program.graph.nodes[0];
  EXPECT_EQ(mul.Describe(), "node `mul` (torch.ops.aten.mul.Tensor, at m.py:12)");
  EXPECT_EQ(mul.source.text, "return x * self.w");
  EXPECT_EQ(mul.Find("other")->tensor(), "p_w");
  EXPECT_EQ(mul.Find("alpha"), nullptr);
  EXPECT_EQ(program.graph.FindTensor("x")->sizes[0].expr,
            "Symbol('s0', positive=True, integer=True)");
  EXPECT_EQ(program.input_specs[1].path, "x") << "the placeholder's name where there is no pytree";
  EXPECT_EQ(program.output_specs[0].path, "out.0");

  const Weight* weight = archive->FindWeight(program.input_specs[0]);
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(archive->storage(*weight).path, "data/weights/weight_0");
  EXPECT_THAT(weight->sizes, ElementsAre(2));
  EXPECT_TRUE(weight->is_contiguous());
  EXPECT_EQ(archive->FindWeight(program.input_specs[1]), nullptr);
  EXPECT_TRUE(archive->CheckWeightCrcs().ok());
  EXPECT_THAT(DumpText(*archive),
              HasSubstr("mul: f32[s0, 2] = torch.ops.aten.mul.Tensor(x, p_w)  # m.py:12"));
  EXPECT_TRUE(ParseJson(DumpJson(*archive), "dump").ok());
}

TEST(Pt2, SaysWhereTheJsonIsWrong) {
  EXPECT_THAT(ModelError(R"("major":8)", R"("major":9)"),
              HasSubstr("schema version 9.20; this build reads 8.x"));
  EXPECT_THAT(
      ModelError(R"("major":8)", R"("major":8.0)"),
      HasSubstr("models/model.json: schema_version.major: expected an integer, found a number"));
  EXPECT_THAT(ModelError(R"("major":8)", R"("major":18446744073709551615)"),
              HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(
      ModelError(R"("arg":{"as_tensor":{"name":"p_w"}},"kind":1)",
                 R"("arg":{"as_wonder":1},"kind":1)"),
      HasSubstr("node `mul` (torch.ops.aten.mul.Tensor, at m.py:12): models/model.json: "
                "graph_module.graph.nodes[0].inputs[1].arg: unknown kind of argument `as_wonder`"));
  EXPECT_THAT(ModelError(R"("arg":{"as_tensor":{"name":"p_w"}},"kind":1)", R"("arg":{},"kind":1)"),
              HasSubstr("expected an object with one key (a union), found 0 keys"));
  EXPECT_THAT(ModelError(R"("arg":{"as_tensor":{"name":"p_w"}},"kind":1)",
                         R"("arg":{"as_tensor":{"name":"z"}},"kind":1)"),
              HasSubstr("tensor `z` is used before it is defined"));
  EXPECT_THAT(ModelError(R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}})",
                         R"({"user_input":{"arg":{"as_sym_int":{"as_name":"x"}}}})"),
              HasSubstr("input 1 `x` is "));
  EXPECT_THAT(ModelError(R"("arg":{"as_tensor":{"name":"p_w"}},"kind":1)",
                         R"("arg":{"as_sym_int":{"as_name":"p_w"}},"kind":1)"),
              HasSubstr("`p_w` is a tensor, but is used as a symbolic int"));
  EXPECT_THAT(ModelError(R"("outputs":[{"as_tensor":{"name":"mul"}}],"metadata")",
                         R"("outputs":[{"as_tensor":{"name":"x"}}],"metadata")"),
              HasSubstr("value `x` is defined twice"));
  EXPECT_THAT(ModelError(R"("dtype":7)", R"("dtype":99)"), HasSubstr("unknown dtype code 99"));
  EXPECT_THAT(ModelError(R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}})",
                         R"({"token":{"arg":{"name":"t"}}})"),
              HasSubstr("effect tokens"));
  EXPECT_THAT(ModelError(R"("min_val":2)", R"("min_val":9223372036854775807)"),
              HasSubstr("is empty"));
  EXPECT_THAT(ModelError(R"("verifiers")", R"("torch_version":"x","verifiers")"),
              HasSubstr("`torch_version` appears twice"));
  EXPECT_THAT(ModelError("{", ""), HasSubstr("models/model.json: not valid JSON, at byte"));
  Parts deep;
  deep.model = std::string(100000, '[');
  EXPECT_THAT(Error(File(deep)), HasSubstr("nested deeper than 400 levels"));
}

TEST(Pt2, WeightsLieWithinTheirStorage) {
  EXPECT_THAT(ConfigError(Config(kWeight, "true")), HasSubstr("`w` is stored as a Python pickle"));
  EXPECT_THAT(ConfigError(Config(Tensor(R"({"as_int":2})", R"({"as_int":1})", "1"))),
              HasSubstr("needs 12 bytes of its storage `data/weights/weight_0`, which has 8"));
  EXPECT_THAT(ConfigError(Config(Tensor(R"({"as_int":2})", R"({"as_int":2})"))),
              HasSubstr("needs 12 bytes"));
  EXPECT_THAT(ConfigError(Config(Tensor(R"({"as_int":2})", R"({"as_int":-1})"))),
              HasSubstr("negative stride"));
  EXPECT_THAT(ConfigError(Config(Tensor(R"({"as_int":2})", R"({"as_int":1})", "-1"))),
              HasSubstr("negative storage offset"));
  EXPECT_THAT(
      ConfigError(Config(Tensor(R"({"as_int":2})", R"({"as_int":9223372036854775807})", "5"))),
      HasSubstr("beyond 64-bit"));
  EXPECT_THAT(
      ConfigError(Config(Tensor(R"({"as_int":2})", R"({"as_int":1})", "9223372036854775807"))),
      HasSubstr("beyond 64-bit"));
  EXPECT_THAT(ConfigError(Config(Tensor(R"({"as_int":4611686018427387904},{"as_int":4})",
                                        R"({"as_int":0},{"as_int":0})"))),
              HasSubstr("beyond 64-bit"));
  EXPECT_THAT(ConfigError(Config(Tensor(R"({"as_int":1099511627776})", R"({"as_int":0})"))),
              HasSubstr("expands its storage"));
  EXPECT_THAT(
      ConfigError(Config(Tensor(R"({"as_int":1},{"as_int":2})", R"({"as_int":2},{"as_int":1})"))),
      HasSubstr("the stored tensor is f32[1, 2], not what the graph's `p_w` says"));
  EXPECT_THAT(ConfigError(R"({"config":{}})"),
              HasSubstr("parameter `w` of the program is not among"));
}

TEST(Pt2, WeightsWithoutData) {
  Parts parts;
  parts.weight.clear();
  EXPECT_THAT(
      Error(File(parts)),
      HasSubstr("tensor `w` of f32[2] has no data: the model was exported on meta or fake"));
  parts.extra = R"({"weights_dropped": true})";
  const std::string file = File(parts);
  auto archive = Pt2Archive::Open(Bytes(file));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  EXPECT_TRUE(archive->weights_dropped());
  EXPECT_TRUE(archive->weights()[0].dropped);
  EXPECT_EQ(archive->extras().at("liveshape.json"), parts.extra);
}

TEST(Pt2, EveryTruncationIsAnError) {
  const std::string file = File({});
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut(file.data(), size);
    EXPECT_FALSE(Pt2Archive::Open(Bytes(cut)).ok()) << size;
  }
}

TEST(Pt2, EveryTruncationOfTheJsonIsAnError) {
  const std::string model = Model();
  for (size_t size = 0; size < model.size(); ++size)
    EXPECT_FALSE(ParseProgram(std::string(model.data(), size)).ok()) << size;
}

TEST(Pt2, NoByteOfTheJsonCrashesIt) {
  const std::string model = Model();
  for (size_t at = 0; at < model.size(); ++at)
    for (char value : {'0', '"', '\xFF'}) {
      std::string bad = model;
      bad[at] = value;
      (void)ParseProgram(bad);
    }
}

// ---- parts ---------------------------------------------------------------------------------------

Result<Arg> ReadArgText(std::string_view text) {
  LS_ASSIGN_OR_RETURN(JsonDocument document, ParseJson(text, "arg"));
  return ReadArg(JsonAt("arg", document.root));
}

TEST(Pt2Arg, EveryKind) {
  const std::pair<const char*, const char*> kKinds[] = {
      {R"({"as_none":true})", "none null"},
      {R"({"as_tensor":{"name":"x"}})", "tensor \"x\""},
      {R"({"as_tensors":[{"name":"x"},{"name":"y"}]})", R"(list of tensors ["x","y"])"},
      {R"({"as_optional_tensor":{"as_none":true}})", "none null"},
      {R"({"as_optional_tensor":{"as_tensor":{"name":"x"}}})", "tensor \"x\""},
      {R"({"as_optional_tensors":[{"as_none":true},{"as_tensor":{"name":"i"}}]})",
       R"(list of optional tensors ["","i"])"},
      {R"({"as_nested_tensors":[[{"name":"x"}],[]]})", R"(list of lists of tensors [["x"],[]])"},
      {R"({"as_int":-9223372036854775808})", "int -9223372036854775808"},
      {R"({"as_ints":[9223372036854775807,0]})", "list of ints [9223372036854775807,0]"},
      {R"({"as_int_lists":[[1],[2,3]]})", "list of lists of ints [[1],[2,3]]"},
      {R"({"as_float":"-Infinity"})", R"(float "-Infinity")"},
      {R"({"as_float":1})", "float 1"},
      {R"({"as_floats":[0.5,"NaN"]})", R"(list of floats [0.5,"NaN"])"},
      {R"({"as_float_lists":[[0.5]]})", "list of lists of floats [[0.5]]"},
      {R"({"as_bool":true})", "bool true"},
      {R"({"as_bools":[true,false]})", "list of bools [true,false]"},
      {R"({"as_string":"a\"b"})", R"(string "a\"b")"},
      {R"({"as_strings":["a"]})", R"(list of strings ["a"])"},
      {R"({"as_sym_int":{"as_name":"n"}})", R"(symbolic int {"name":"n"})"},
      {R"({"as_sym_ints":[{"as_name":"n"},{"as_int":3}]})",
       R"(list of symbolic ints [{"name":"n"},3])"},
      {R"({"as_sym_float":{"as_float":2.5}})", "symbolic float 2.5"},
      {R"({"as_sym_floats":[{"as_name":"f"}]})", R"(list of symbolic floats [{"name":"f"}])"},
      {R"({"as_sym_bool":{"as_name":"b"}})", R"(symbolic bool {"name":"b"})"},
      {R"({"as_sym_bools":[{"as_bool":true}]})", "list of symbolic bools [true]"},
      {R"({"as_scalar_type":13})", R"(dtype "bf16")"},
      {R"({"as_memory_format":2})", "memory format 2"},
      {R"({"as_layout":7})", "layout 7"},
      {R"({"as_device":{"type":"cpu","index":null}})", R"(device "cpu")"},
      {R"({"as_operator":"torch.ops.aten.add.Tensor"})", R"(operator "torch.ops.aten.add.Tensor")"},
      {R"({"as_complex":{"real":1.5,"imag":-2}})", "complex [1.5,-2]"},
      {R"({"as_custom_obj":{"name":"o","class_fqn":"C"}})", R"(custom object "o")"},
      {R"({"as_string_to_argument":{"k":{"as_int":1}}})", R"(dict {"k":{"kind":"int","value":1}})"},
  };
  for (const auto& [text, expected] : kKinds) {
    auto arg = ReadArgText(text);
    ASSERT_TRUE(arg.ok()) << text << ": " << arg.status().message();
    EXPECT_EQ(fmt::format("{} {}", arg->kind(), DumpArg(*arg)), expected);
  }
}

TEST(Pt2Arg, BadOnes) {
  for (const char* text : {R"({"as_int":1.5})", R"({"as_int":9223372036854775808})",
                           R"({"as_int":-9223372036854775809})", R"({"as_ints":[1,true]})",
                           R"({"as_float":"Inf"})", R"({"as_bool":1})", R"({"as_scalar_type":14})",
                           R"({"as_layout":8})", R"({"as_tensor":{"name":""}})",
                           R"({"as_sym_int":{"as_expr":"s0"}})", R"({"as_none":true,"as_int":1})",
                           R"({"as_graph":{"name":"g","graph":{}}})", R"([])", R"(null)"})
    EXPECT_FALSE(ReadArgText(text).ok()) << text;
}

TEST(Pt2Arg, ReadersAcceptEverySpelling) {
  EXPECT_EQ(ReadArgText(R"({"as_int":3})")->sym_int()->value, 3);
  EXPECT_EQ(ReadArgText(R"({"as_sym_int":{"as_int":3}})")->integer(), 3);
  EXPECT_EQ(ReadArgText(R"({"as_sym_int":{"as_name":"n"}})")->integer(), std::nullopt);
  EXPECT_EQ(ReadArgText(R"({"as_ints":[3,4]})")->sym_ints()->at(1).value, 4);
  EXPECT_EQ(ReadArgText(R"({"as_bool":true})")->number(), 1.0);
  EXPECT_TRUE(std::isnan(*ReadArgText(R"({"as_float":"NaN"})")->number()));
  EXPECT_EQ(ReadArgText(R"({"as_tensor":{"name":"x"}})")->number(), std::nullopt);
  EXPECT_EQ(ReadArgText(R"({"as_sym_bool":{"as_name":"b"}})")->value_name(), "b");
}

TEST(Pt2Metadata, SourceIsTheInnermostFrameOutsideTorch) {
  const SourceLine line = ParseStackTrace(
      "File \"/u/net.py\", line 7, in forward\n    y = self.l(x)\n"
      "  File \"/v/lib/python3.11/site-packages/torch/nn/modules/linear.py\", line 134, in "
      "forward\n    return F.linear(x)");
  EXPECT_EQ(line.str(), "net.py:7");
  EXPECT_EQ(line.text, "y = self.l(x)");
  EXPECT_EQ(ParseStackTrace("File \"torch/fx/x.py\", line 24, in f").str(), "x.py:24");
  EXPECT_TRUE(ParseStackTrace("File \"").empty());
  EXPECT_TRUE(ParseStackTrace("").empty());
  EXPECT_EQ(ParseStackTrace("File \"a.py\", line 99999999999999999999").str(), "a.py:0");
  Node node;
  ParseModuleStack("L__self__,,M;L__self___l,L['self'].layers.0.l,torch.nn.Linear", node);
  EXPECT_EQ(node.module_path, "layers.0.l");
  EXPECT_EQ(node.module_type, "torch.nn.Linear");
}

constexpr std::string_view kLeaf = R"({"type":null,"context":null,"children_spec":[]})";

std::vector<std::string> OutputNames(std::string spec, size_t count) {
  for (size_t at; (at = spec.find("LEAF")) != spec.npos;) spec.replace(at, 4, kLeaf);
  std::vector<OutputSpec> specs(count);
  CallSpecs call;
  call.out_spec = std::move(spec);
  if (Status status = NameOutputs(call, specs); !status.ok()) return {status.message()};
  std::vector<std::string> names;
  for (const OutputSpec& output : specs) names.push_back(output.path);
  return names;
}

TEST(Pt2TreeSpec, OutputNames) {
  EXPECT_THAT(OutputNames("[1,LEAF]", 1), ElementsAre("out"));
  EXPECT_THAT(
      OutputNames(R"([1,{"type":"builtins.tuple","context":"null","children_spec":[LEAF,LEAF]}])",
                  2),
      ElementsAre("out.0", "out.1"));
  EXPECT_THAT(
      OutputNames(
          R"([1,{"type":"builtins.dict","context":"[\"a\",\"b\"]","children_spec":[LEAF,LEAF]}])",
          2),
      ElementsAre("a", "b"));
  EXPECT_THAT(
      OutputNames(
          R"([1,{"type":"builtins.dict","context":"[\"a\",\"a\"]","children_spec":[LEAF,LEAF]}])",
          2),
      ElementsAre("a", "a_2"));
  EXPECT_THAT(OutputNames("[1,LEAF]", 3), ElementsAre("out.0", "out.1", "out.2"))
      << "does not fit: positions";
  EXPECT_THAT(OutputNames("[2,LEAF]", 1)[0], HasSubstr("protocol 2"));
  EXPECT_THAT(OutputNames("[1,", 1)[0], HasSubstr("not valid JSON"));
}

TEST(Pt2TreeSpec, LongKeysDoNotMultiply) {
  std::string spec =
      R"([1,{"type":"builtins.dict","context":"[\")" + std::string(1 << 20, 'k') +
      R"(\"]","children_spec":[{"type":"builtins.list","context":"null","children_spec":[)";
  for (int i = 0; i < 100; ++i) spec += std::string(kLeaf) + ",";
  spec += std::string(kLeaf) + "]}]}]";
  EXPECT_THAT(OutputNames(spec, 101)[0], HasSubstr("take over 16777216 bytes"));
}

TEST(Pt2TreeSpec, InputNamesWithoutForwardArgNames) {
  std::string spec = R"([1,{"type":"builtins.tuple","context":"null","children_spec":[)"
                     R"({"type":"builtins.tuple","context":"null","children_spec":[LEAF,)"
                     R"({"type":"builtins.dict","context":"[\"q\"]","children_spec":[LEAF]}]},)"
                     R"({"type":"builtins.dict","context":"[\"k\"]","children_spec":[LEAF]}]}])";
  for (size_t at; (at = spec.find("LEAF")) != spec.npos;) spec.replace(at, 4, kLeaf);
  CallSpecs call;
  call.in_spec = spec;
  std::vector<InputSpec> specs(3);
  ASSERT_TRUE(NameInputs(call, {"x", "d_q", "k"}, specs).ok());
  EXPECT_EQ(specs[0].path, "x");
  EXPECT_EQ(specs[1].path, "d.q");
  EXPECT_EQ(specs[2].path, "k");
}

}  // namespace
}  // namespace liveshape::pt2
