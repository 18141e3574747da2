#include "backends/npu/report/perfetto.h"

#include <cerrno>
#include <cstring>

namespace liveshape::npu {
namespace {

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

constexpr int kKernels =
    1'000'000;  // the process that kernels are shown as; cores have their own number

}  // namespace

Result<std::unique_ptr<PerfettoTrace>> PerfettoTrace::Create(const std::string& path,
                                                             const Machine& machine) {
  const std::string temporary = path + ".partial";
  FILE* file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr)
    return InvalidArgument("cannot write `{}`: {}", temporary, std::strerror(errno));
  return std::unique_ptr<PerfettoTrace>(new PerfettoTrace(path, file, machine));
}

PerfettoTrace::PerfettoTrace(std::string path, FILE* file, const Machine& machine)
    : path_(std::move(path)),
      temporary_(path_ + ".partial"),
      file_(file),
      mhz_(static_cast<double>(machine.frequency_mhz)) {
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", file_);
  const auto name = [&](const char* what, int64_t process, int thread, std::string_view text) {
    Write(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                      process, thread, JsonString(text)));
  };
  name("process_name", kKernels, 0, machine.name);
  name("thread_name", kKernels, 0, "kernels");
  for (int64_t core = 0; core < machine.cores; ++core) {
    name("process_name", core, 0, fmt::format("core {}", core));
    name("thread_name", core, static_cast<int>(Track::kArray), "arrays");
    name("thread_name", core, static_cast<int>(Track::kVector), "lanes");
  }
}

PerfettoTrace::~PerfettoTrace() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

double PerfettoTrace::Microseconds(int64_t cycle) const {
  return static_cast<double>(cycle + origin_) / mhz_;
}

void PerfettoTrace::Write(const std::string& event) {
  failed_ |= std::fputs(first_ ? "\n" : ",\n", file_) < 0;
  failed_ |= std::fputs(event.c_str(), file_) < 0;
  first_ = false;
}

void PerfettoTrace::Add(const Slice& s) {
  const double begin = Microseconds(s.begin), end = Microseconds(s.end);
  if (s.track != Track::kDma) {
    Write(fmt::format(
        R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"args":{{"tile":{}}}}})",
        JsonString(s.name), s.core, static_cast<int>(s.track), begin, end - begin, s.tile));
    return;
  }
  // Transfers of one queue overlap: asynchronous spans, which need no stack.
  const uint64_t id = transfers_++;
  for (const auto& [phase, time] : {std::pair{'b', begin}, std::pair{'e', end}})
    Write(fmt::format(
        R"({{"ph":"{}","cat":"dma","id":{},"name":{},"pid":{},"tid":{},"ts":{:.4f},"args":{{"tile":{}}}}})",
        phase, id, JsonString(s.name), s.core, static_cast<int>(s.track), time, s.tile));
}

void PerfettoTrace::AddKernel(const std::string& name, int64_t begin, int64_t end) {
  Write(fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":0,"ts":{:.4f},"dur":{:.4f}}})",
                    JsonString(name), kKernels, Microseconds(begin),
                    Microseconds(end) - Microseconds(begin)));
}

Status PerfettoTrace::Close() {
  failed_ |= std::fputs("\n]}\n", file_) < 0;
  failed_ |= std::fclose(file_) != 0;
  file_ = nullptr;
  if (failed_ || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    std::remove(temporary_.c_str());
    return InvalidArgument("cannot write `{}`: {}", path_, std::strerror(errno));
  }
  return {};
}

}  // namespace liveshape::npu
