// What each subcommand is told, as plain data, and the function that does it. main.cc, the one file that
// knows CLI11, fills these; a Run function returns the exit code: 0 good, 1 a check failed, 2 bad input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace liveshape::cli {

struct CompileOptions {
  std::string input, output;
  std::vector<std::string> bounds, mins, statics;  // "S=4096"
  std::vector<std::string> externals;              // names or globs of constants
  std::string quant;                               // "q8", "q4", or empty
  std::optional<uint64_t> random_weights;          // a seed
  bool no_weights = false;
  bool json = false;
};
int RunCompile(const CompileOptions& options);

struct RunOptions {
  std::string model, out;
  std::string backend = "cpu";
  int threads = 0;
  bool strict = false, profile = false, json = false;
  std::vector<std::string> constants;  // "name=w.npy": those that the artifact does not hold
  std::vector<std::string> inputs;     // "name=x.npy": given to every step
  std::vector<std::vector<std::string>>
      steps;  // each step's own; empty: one run, written to `out` itself
};
int RunRun(const RunOptions& options);

struct CostOptions {
  std::string model;
  std::string backend = "cpu";
  int threads = 1;              // scratch is by thread
  std::vector<std::string> at;  // "S=128,B=1"; empty: expressions only
  bool json = false;
};
int RunCost(const CostOptions& options);

struct DumpOptions {
  std::string file;
  std::string format = "text";  // text, json or dot
};
int RunDump(const DumpOptions& options);

struct VerifyOptions {
  std::string model, golden;
  std::vector<std::string> backends = {"cpu", "null"};
  std::vector<std::string> constants;
  int threads = 3;
  bool json = false;
};
int RunVerify(const VerifyOptions& options);

struct BenchOptions {
  std::string model;
  std::string backend = "cpu";
  std::vector<std::string> sweeps, ints, constants;  // "S=1,2"; "ids=0:255"; "name=w.npy"
  int threads = 0, repeat = 30;
  bool strict = false, json = false;
};
int RunBench(const BenchOptions& options);

struct SimulateOptions {
  std::string model, machine, perfetto, html, attributes;  // attributes: a folder for them
  std::vector<std::string> sweeps, ints, constants;        // as bench's; the last two for --values
  std::string producer = "inprocess";                      // or so
  int64_t tile = 0;                                        // 0: chosen by the live shape
  bool values = false, explain = false, json = false;
};
int RunSimulate(const SimulateOptions& options);

struct DevicesOptions { bool json = false; };
int RunDevices(const DevicesOptions& options);

struct DemoOptions {
  std::string model, golden;
  std::string backend = "cpu";
  int threads = 0;
  bool json = false;
};
int RunDemo(const DemoOptions& options);

}  // namespace liveshape::cli
