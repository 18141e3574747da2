// The command line: flags to option structs. The one file that includes CLI11 (5.6 s to compile).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "base/interpose.h"
#include "cli/common.h"
#include "cli/options.h"
#include "liveshape/version.h"

namespace liveshape::cli {
namespace {

constexpr const char* kCompileHelp = R"(Examples:
  liveshape compile model.pt2 -o model.live
  liveshape compile model.pt2 -o model.live --bound S=4096 --min S=1   # S: a Dim, s43, or input_ids.1
  liveshape compile model.pt2 -o model.live --static B=1 --json
  liveshape compile model.pt2 -o model.live --external 'lm_head.*'     # given at load: run --constant
  liveshape compile model.pt2 -o model.live --quant q4                 # docs/quantisation.md
  liveshape compile shape.pt2 -o model.live --random-weights 1         # of liveshape.save(weights=False)
  liveshape compile model.pt2 -o model.live --no-weights               # for dump, cost and simulate
--bound sets a missing bound or lowers one; it never raises the exported range.)";

constexpr const char* kRunHelp = R"(Examples:
  liveshape run model.live --input x=x.npy --out result             # result/00_name.npy, 01_...
  liveshape run model.live --input 0=x.npy --input n=7 --out result --strict --profile
  liveshape run model.live --input x=x.npy --constant lm_head.weight=head.npy --out result
  liveshape run model.live --input all.safetensors --out result.safetensors    # tensors by name
  liveshape run model.live --out result --step --input ids=prompt.npy --step --input ids=next.npy
Each --step begins the inputs of one run; step n (from 0) writes to result/n/. Inputs before the first
--step are given to every step. bfloat16 tensors are uint16 in .npy files. --profile measures what the machine can
do (0.1 s) and shows each op's share of it: its time against that of its FLOPs or bytes at full speed, the longer.)";

constexpr const char* kCostHelp = R"(Examples:
  liveshape cost model.live                              # expressions over the symbols
  liveshape cost model.live --at S=128,B=1               # and what they are at a live shape
  liveshape cost model.live --at S=1 --at P=500 --json | jq .total
FLOPs are those of torch's FlopCounterMode (matrix products, attention over all keys), equal products once;
`needed` leaves out keys that a recognised mask hides. Bytes: what each op must read and write once. Peak memory: the most that tensors and
kernels' scratch take in the arena at one time, which no plan can undercut; scratch grows with --threads. `tensors`:
the most that tensors alone take.
`planned here`: the arena if it were planned for just this live shape, and its lower bound, which is the peak. That of
a session is planned for the bound: see dump. Constants and states come on top.)";

constexpr const char* kDumpHelp = R"(Examples:
  liveshape dump model.live
  liveshape dump model.live --format json | jq .plan
  liveshape dump model.live --format dot | dot -Tsvg > model.svg    # of a .pt2: as imported, before passes
  liveshape dump model.pt2
  liveshape dump model.pte                  # an ExecuTorch program: methods, delegates, our blobs as above)";

constexpr const char* kVerifyHelp = R"(Examples:
  liveshape verify model.live --golden golden
  liveshape verify model.live --golden golden --backends cpu --threads 2 --json
Every point runs large -> small -> large in one strict session, twice with poisoned tails, and in fresh sessions
with 1 and N threads; exit 1 on any difference. Goldens: python -m liveshape.golden model.pt2 --sweep S=1,16 -o golden.)";

constexpr const char* kBenchHelp = R"(Examples:
  liveshape bench model.live --sweep S=1,16,128 --sweep B=1,8       # all combinations
  liveshape bench model.live --sweep "S=4,B=2;S=8,B=1"              # points
  liveshape bench model.live --sweep S=128 --int ids=0:255 --threads 1 --repeat 100)";

constexpr const char* kSimulateHelp = R"(Examples:
  liveshape simulate model.live --machine machines/tpuv3.yaml --sweep S=1,16,128,1024
  liveshape simulate model.live --machine machines/edge.yaml --explain          # at the bound; cost of every tile
  liveshape simulate model.live --machine machines/quad.yaml --sweep S=128 --json --perfetto trace.json
  liveshape simulate model.live --machine machines/tpuv3.yaml --sweep S=64 --values --int ids=0:255
One lowering serves all shapes; with --producer so it is compiled to a shared library first (needs a C++ compiler). Cycles
include what memory, NoC and scratchpad make units wait for: docs/npu-simulator.md. Main stall: why the units that
work most had nothing to do. Open a Perfetto trace at ui.perfetto.dev.)";

constexpr const char* kDevicesHelp = R"(Examples:
  liveshape devices
  LIVESHAPE_ADAPTER=1 liveshape run model.live --backend webgpu ...   # a position, or a part of the name
WebGPU needs wgpu-native (scripts/webgpu.sh, pip install wgpu, or LIVESHAPE_WGPU_LIBRARY=FILE) and a driver.)";

constexpr const char* kDemoHelp = R"(Examples:
  liveshape demo model.live --golden golden
One strict session walks the live shapes of the goldens up and down.)";

// `run` groups inputs by --step, which CLI11 cannot; they are taken out of the arguments before it reads them.
void TakeSteps(std::vector<std::string>& arguments, RunOptions& options) {
  std::vector<std::string> rest;
  std::vector<std::string>* inputs = &options.inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--step")
      inputs = &options.steps.emplace_back();
    else if ((argument == "--input" || argument == "-i") && i + 1 < arguments.size())
      inputs->push_back(arguments[++i]);
    else if (argument.starts_with("--input="))
      inputs->push_back(argument.substr(8));
    else
      rest.push_back(argument);
  }
  arguments = std::move(rest);
}

// The name of the subcommand's flags that several share.
void AddJson(CLI::App* command, bool& json) {
  command->add_flag("--json", json, "Print one line of JSON on stdout");
}
void AddBackend(CLI::App* command, std::string& backend, int& threads) {
  command
      ->add_option("--backend", backend,
                   "cpu, webgpu, npu (npu:512 forces the tile, npu:FILE.yaml takes a machine) or "
                   "null (plans and binds, computes nothing)")
      ->capture_default_str();
  command->add_option("--threads", threads, "Threads of the CPU backend; 0: one per core")
      ->capture_default_str();
}
CLI::Option* AddList(CLI::App* command, const char* flag, std::vector<std::string>& list,
                     const char* type, const char* what) {
  return command->add_option(flag, list, what)
      ->type_name(type)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void AddConstants(CLI::App* command, std::vector<std::string>& constants) {
  AddList(command, "--constant", constants, "NAME=FILE.npy",
          "A constant that the artifact names but does not hold (compile --external)");
}

struct AllOptions {
  CompileOptions compile;
  RunOptions run;
  CostOptions cost;
  DumpOptions dump;
  VerifyOptions verify;
  BenchOptions bench;
  SimulateOptions simulate;
  DevicesOptions devices;
  DemoOptions demo;
  bool dump_json = false;
  std::vector<std::string> unused;  // --input and --step, which TakeSteps reads
  bool unused_flag = false;
};

void Define(CLI::App& app, AllOptions& o) {
  app.require_subcommand(1);
  app.set_version_flag("--version", "liveshape " LIVESHAPE_VERSION);
  app.footer(
      "Exit codes: 0 good, 1 a check failed, 2 bad input or usage. A symbol is called by its Dim "
      "name (S),\n"
      "torch's name (s43), or where it enters (input_ids.1).");

  CLI::App* compile =
      app.add_subcommand("compile", "Turn a torch.export .pt2 into a .live artifact");
  compile->add_option("model", o.compile.input, "A .pt2 of torch.export.save or liveshape.save")
      ->required();
  compile->add_option("-o,--output", o.compile.output, "The artifact to write")->required();
  AddList(compile, "--bound", o.compile.bounds, "SYMBOL=N", "Set a missing maximum, or lower one");
  AddList(compile, "--min", o.compile.mins, "SYMBOL=N",
          "Set the minimum (Dim.AUTO gives 2; 1 and 0 work too)");
  AddList(compile, "--static", o.compile.statics, "SYMBOL=N",
          "Fix a symbol to one value after all passes");
  AddList(compile, "--external", o.compile.externals, "NAME|GLOB",
          "Leave these constants out: they are given at load, by name, and not packed");
  compile
      ->add_option("--quant", o.compile.quant,
                   "Store weights of linear and embedding in 8 or 4 bits: q8 or q4")
      ->check(CLI::IsMember({"q8", "q4"}));
  compile->add_option("--random-weights", o.compile.random_weights,
                      "Make up the parameters of a model saved with weights=False, from this seed");
  compile->add_flag("--no-weights", o.compile.no_weights,
                    "Leave out what weighs: enough for dump, cost and simulate, not to be run");
  AddJson(compile, o.compile.json);
  compile->footer(kCompileHelp);

  CLI::App* run = app.add_subcommand("run", "Run an artifact on .npy or safetensors files");
  run->add_option("model", o.run.model, "A .live artifact")->required();
  AddList(run, "-i,--input", o.unused, "NAME=FILE.npy",
          "An input, by name or position (0=x.npy); integers as n=7. NAME=FILE.safetensors takes "
          "the tensor of that name, FILE.safetensors alone all of them");
  run->add_flag("--step", o.unused_flag, "Begin the inputs of one more run in the same session");
  AddConstants(run, o.run.constants);
  run->add_option(
      "--out", o.run.out,
      "Directory for the outputs, or one .safetensors file; without it they are only described");
  AddBackend(run, o.run.backend, o.run.threads);
  run->add_flag("--strict", o.run.strict,
                "Abort on any allocation, rebuild or moved address after load");
  run->add_flag("--profile", o.run.profile,
                "Time, GFLOP/s, GB/s and share of the machine's peak per op");
  AddJson(run, o.run.json);
  run->footer(kRunHelp);

  CLI::App* cost = app.add_subcommand(
      "cost", "FLOPs, bytes and peak memory, in closed form and at a live shape");
  cost->add_option("model", o.cost.model, "A .live artifact")->required();
  AddList(cost, "--at", o.cost.at, "S=128,B=1",
          "A live shape; values known at run too, where the cost depends on them");
  cost->add_option("--backend", o.cost.backend, "Whose plan: cpu, webgpu, npu or null")
      ->capture_default_str();
  cost->add_option("--threads", o.cost.threads, "Threads of the CPU backend: scratch is by thread")
      ->capture_default_str();
  AddJson(cost, o.cost.json);
  cost->footer(kCostHelp);

  CLI::App* dump = app.add_subcommand("dump", "Show what is in a .live, .pt2 or .pte");
  dump->add_option("file", o.dump.file, "A .live artifact, a .pt2 or an ExecuTorch .pte")
      ->required();
  dump->add_option("--format", o.dump.format, "text, json or dot (Graphviz)")
      ->check(CLI::IsMember({"text", "json", "dot"}))
      ->capture_default_str();
  AddJson(dump, o.dump_json);
  dump->footer(kDumpHelp);

  CLI::App* verify =
      app.add_subcommand("verify", "Compare with torch's goldens at every live shape");
  verify->add_option("model", o.verify.model, "A .live artifact")->required();
  verify->add_option("--golden", o.verify.golden, "The directory that liveshape.golden wrote")
      ->required();
  verify->add_option("--backends", o.verify.backends, "Backends, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  verify->add_option("--threads", o.verify.threads, "N of the comparison between 1 and N threads")
      ->capture_default_str();
  AddConstants(verify, o.verify.constants);
  AddJson(verify, o.verify.json);
  verify->footer(kVerifyHelp);

  CLI::App* bench = app.add_subcommand("bench", "Time runs and binds over a sweep of live shapes");
  bench->add_option("model", o.bench.model, "A .live artifact")->required();
  AddList(bench, "--sweep", o.bench.sweeps, "S=1,2", "Live shapes; several sweeps multiply");
  AddList(bench, "--int", o.bench.ints, "NAME=LOW:HIGH",
          "Range of a random integer input (0:1 unless given)");
  AddBackend(bench, o.bench.backend, o.bench.threads);
  AddConstants(bench, o.bench.constants);
  bench->add_option("--repeat", o.bench.repeat, "Samples per shape")->capture_default_str();
  bench->add_flag("--strict", o.bench.strict,
                  "Abort on any allocation, rebuild or moved address after load");
  AddJson(bench, o.bench.json);
  bench->footer(kBenchHelp);

  CLI::App* simulate =
      app.add_subcommand("simulate", "Cycles on an NPU at every live shape of a sweep");
  simulate->add_option("model", o.simulate.model, "A .live artifact")->required();
  simulate->add_option("--machine", o.simulate.machine, "What the NPU is: machines/*.yaml")
      ->required();
  AddList(simulate, "--sweep", o.simulate.sweeps, "S=1,2",
          "Live shapes; several sweeps multiply. None: the static shape, or the bound");
  simulate->add_option("--producer", o.simulate.producer, "Who walks the tiles: inprocess or so")
      ->check(CLI::IsMember({"so", "inprocess"}))
      ->capture_default_str();
  simulate->add_option("--tile", o.simulate.tile, "Forces a tile size; 0: the live shape decides")
      ->capture_default_str();
  simulate->add_flag("--values", o.simulate.values,
                     "Also compute values by the same tiles, on random inputs, beside the CPU's");
  AddList(simulate, "--int", o.simulate.ints, "NAME=LOW:HIGH",
          "Range of a random integer input of --values (0:1 unless given)");
  AddConstants(simulate, o.simulate.constants);
  simulate->add_flag("--explain", o.simulate.explain,
                     "Show what each distinct tile costs, and why");
  simulate->add_option("--perfetto", o.simulate.perfetto,
                       "Write a trace of every unit to this file");
  simulate->add_option("--html", o.simulate.html,
                       "Write a page to read: cycles as a curve, utilisation, stalls, roofline");
  simulate->add_option("--attributes", o.simulate.attributes,
                       "A folder: sizes and addresses pass through one file a kernel there");
  AddJson(simulate, o.simulate.json);
  simulate->footer(kSimulateHelp);

  CLI::App* devices = app.add_subcommand("devices", "List the GPUs that WebGPU finds here");
  AddJson(devices, o.devices.json);
  devices->footer(kDevicesHelp);

  CLI::App* demo = app.add_subcommand("demo", "Walk live shapes up and down in one strict session");
  demo->add_option("model", o.demo.model, "A .live artifact")->required();
  demo->add_option("--golden", o.demo.golden, "The directory that liveshape.golden wrote")
      ->required();
  AddBackend(demo, o.demo.backend, o.demo.threads);
  AddJson(demo, o.demo.json);
  demo->footer(kDemoHelp);
}

// CLI11 only says that a subcommand is required.
bool SaysUnknownCommand(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return false;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == arguments[0]) return false;
    known.push_back(command->get_name());
  }
  Say("liveshape: there is no subcommand `{}`: there are {}; see liveshape --help\n", arguments[0],
      fmt::join(known, ", "));
  return true;
}

int Main(std::vector<std::string> arguments) {
  CLI::App app("Load an artifact once, run it exactly at every live shape.", "liveshape");
  AllOptions options;
  Define(app, options);
  if (SaysUnknownCommand(app, arguments)) return 2;
  if (!arguments.empty() && arguments[0] == "run") TakeSteps(arguments, options.run);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a vector
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // its own codes begin at 100
  }
  if (options.dump_json) options.dump.format = "json";
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "compile") return RunCompile(options.compile);
  if (command == "run") return RunRun(options.run);
  if (command == "cost") return RunCost(options.cost);
  if (command == "dump") return RunDump(options.dump);
  if (command == "verify") return RunVerify(options.verify);
  if (command == "bench") return RunBench(options.bench);
  if (command == "simulate") return RunSimulate(options.simulate);
  if (command == "devices") return RunDevices(options.devices);
  return RunDemo(options.demo);
}

}  // namespace
}  // namespace liveshape::cli

// What was asked for is on stdout: if it could not be written, as where the disk is full, that is no success. fmt throws
// where stdio fails at once; what stdio puts off, or iostreams swallow, the flag of the stream tells.
int main(int argc, char** argv) {
  liveshape::InstallAllocationObserver();
  int code = liveshape::cli::kBadInput;
  bool written = true;
  try {
    code = liveshape::cli::Main({argv + 1, argv + argc});
  } catch (const std::system_error&) {
    written = false;
  }
  written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && written;
  if (written) return code;
  liveshape::cli::Say("liveshape: cannot write to stdout\n");
  return liveshape::cli::kBadInput;
}
