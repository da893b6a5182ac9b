// SPDX-License-Identifier: Apache-2.0
// graft serve: Triton's server with the backend of Graft, on a repository made for the occasion.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "child_process.h"
#include "commands.h"
#include "console.h"
#include "http_probe.h"
#include "model_options.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr double kLookSeconds = 60;  ///< that Python may take to say where its packages are
constexpr const char* kWhereServerIs = "import sysconfig; print(sysconfig.get_path('purelib'))";

struct ServeCommand {
  std::vector<std::string> models, server_options;
  std::string server, backends, address = "127.0.0.1", device, log;
  int http_port = 8000, grpc_port = 8001, metrics_port = 8002, threads = 0, instances = 1;
  int64_t batch_delay = 0;
  bool verbose = false;

  int run() const;
  void write_repository(const fs::path& folder) const;
  std::string configuration() const;
  std::vector<std::string> command_line(const std::string& program, const fs::path& repository) const;
  void tell_of_endpoints() const;
};

/// What the model is called there: the file's name without its ending.
std::string name_of_model(const fs::path& model) {
  const std::string name = model.stem();
  GRAFT_USER_CHECK(!name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                           "0123456789_-.") == std::string::npos,
                   kInvalidArgument, "a served model's name has letters, digits, _, - and . only: rename the file",
                   model.string());
  return name;
}

bool is_device(std::string_view text) {
  if (text == "cpu" || text == "cuda") return true;
  const std::string_view number = text.starts_with("cuda:") ? text.substr(5) : "";
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string parameter(const char* key, const std::string& value) {
  return fmt::format("parameters {{ key: \"{}\" value {{ string_value: \"{}\" }} }}\n", key, value);
}

std::string ServeCommand::configuration() const {
  std::string text = fmt::format("backend: \"graft\"\ninstance_group {{ count: {} kind: KIND_CPU }}\n", instances);
  if (batch_delay > 0) text += fmt::format("dynamic_batching {{ max_queue_delay_microseconds: {} }}\n", batch_delay);
  if (!device.empty()) text += parameter("device", device);
  if (threads > 0) text += parameter("threads", fmt::format("{}", threads));
  return text;
}

/// Puts a plan there, or compiles a model to one: so it finds its external data, and mistakes are told here.
void put_plan(const std::string& model, const fs::path& plan) {
  if (model.ends_with(".graft")) return fs::create_symlink(fs::canonical(model), plan);
  const std::string self = fs::read_symlink("/proc/self/exe");
  const int status = run_program({self, "compile", model, "-o", plan});
  stop_if_interrupted();
  GRAFT_USER_CHECK(status == 0, kInvalidModel, "it could not be compiled; what was said is above", model);
}

void ServeCommand::write_repository(const fs::path& folder) const {
  std::set<std::string> names;
  for (const std::string& each : models) {
    GRAFT_USER_CHECK(fs::exists(each), kInvalidArgument, "there is no such file", each);
    const std::string name = name_of_model(each);
    GRAFT_USER_CHECK(names.insert(name).second, kInvalidArgument, "two models have this name: rename a file", name);
    fs::create_directories(folder / name / "1");
    put_plan(each, folder / name / "1" / "model.graft");
    std::ofstream file(folder / name / "config.pbtxt");
    file << configuration();
    GRAFT_USER_CHECK(file.flush(), kDevice, "it cannot be written", (folder / name / "config.pbtxt").string());
  }
}

/// The folder of backends beside this program, as it is built or installed.
std::string find_backends() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {"../lib/triton", "../lib64/triton", "../lib/x86_64-linux-gnu/triton"}) {
    const fs::path found = folder / place;
    if (fs::exists(found / "graft" / "libtriton_graft.so")) return fs::canonical(found);
  }
  throw Error(ErrorKind::kDevice, "libtriton_graft.so is not beside this program: say where with --backends FOLDER, "
                                  "in which it is graft/libtriton_graft.so", "graft serve");
}

/// A program on the PATH; empty when there is none.
std::string on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path ? path : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / name;
    if (end > 0 && fs::is_regular_file(file)) return file;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

/// The server: on the PATH, where its container has it, or in the package PyTriton of python3.
std::string find_server() {
  if (const std::string found = on_path("tritonserver"); !found.empty()) return found;
  if (const char* const container = "/opt/tritonserver/bin/tritonserver"; fs::exists(container)) return container;
  if (const std::string python = on_path("python3"); !python.empty()) {
    std::string folder = capture_program({python, "-c", kWhereServerIs}, kLookSeconds).output;
    while (!folder.empty() && folder.back() == '\n') folder.pop_back();
    const fs::path found = fs::path(folder) / "pytriton/tritonserver/bin/tritonserver";
    if (fs::exists(found)) return found;
  }
  throw Error(ErrorKind::kDevice, "there is no tritonserver: `pip install --no-deps nvidia-pytriton==0.7.0` (55 MB) "
                                  "has one that runs without a GPU, or say where it is with --server FILE",
              "graft serve");
}

std::vector<std::string> ServeCommand::command_line(const std::string& program, const fs::path& repository) const {
  const auto number = [](int port) { return fmt::format("{}", port); };
  std::vector<std::string> words = {
      program, "--model-repository", repository,
      "--backend-directory", backends.empty() ? find_backends() : backends,
      "--http-address", address, "--grpc-address", address, "--metrics-address", address,
      "--http-port", number(http_port), "--grpc-port", number(grpc_port), "--metrics-port", number(metrics_port)};
  if (!verbose) words.push_back("--log-info=false");
  if (!log.empty()) words.push_back(fmt::format("--backend-config=graft,log={}", fs::absolute(log).string()));
  words.insert(words.end(), server_options.begin(), server_options.end());
  return words;
}

void ServeCommand::tell_of_endpoints() const {
  for (const std::string& model : models) {
    print_to(stdout, "serving {} at http://{}:{}/v2/models/{}\n", model, address, http_port, name_of_model(model));
  }
  print_to(stdout, "gRPC at {}:{}, metrics at http://{}:{}/metrics; Ctrl-C ends it\n", address, grpc_port, address,
           metrics_port);
  std::fflush(stdout);
}

int ServeCommand::run() const {
  if (!device.empty() && !is_device(device)) throw UsageError(fmt::format("--device {}: cpu, cuda or cuda:N", device));
  const std::string program_file = server.empty() ? find_server() : server;
  for (const int port : {http_port, grpc_port, metrics_port}) {
    GRAFT_USER_CHECK(!is_listening(address, port), kDevice,
                     fmt::format("a program listens at port {} already: choose another", port), "graft serve");
  }
  const ScratchFolder scratch;
  const fs::path repository = scratch / "models";
  write_repository(repository);
  ServingProgram program(command_line(program_file, repository));
  while (program.runs() && !interrupted() && !answers_http(address, http_port, "/v2/health/ready")) {
    program.wait_a_moment();
  }
  if (program.runs() && !interrupted()) tell_of_endpoints();
  while (program.runs() && !interrupted()) program.wait_a_moment();
  const bool asked = interrupted();
  const int status = program.end();
  GRAFT_USER_CHECK(asked || status == 0, kDevice,
                   fmt::format("the server ended with status {}; what it said is above", status), "graft serve");
  return 0;
}

}  // namespace

void add_serve(Command app, Action& action) {
  Command sub = app.add_command("serve", "serve models over HTTP and gRPC, in Triton's server");
  const auto command = std::make_shared<ServeCommand>();
  sub.add_option("MODEL", command->models, "plans, or models, which are compiled first").required()
      .type_name("FILE");
  sub.add_option("--address", command->address, "address to listen on; 0.0.0.0 for all networks").show_default();
  const auto port = [&](const char* flag, int& number, const char* help) {
    sub.add_option(flag, number, help).type_name("PORT").in_range(1, 65535).show_default();
  };
  port("--http-port", command->http_port, "port of HTTP");
  port("--grpc-port", command->grpc_port, "port of gRPC");
  port("--metrics-port", command->metrics_port, "port of metrics, for Prometheus");
  sub.add_option("--instances", command->instances, "concurrent runs of a model, which share its weights")
      .type_name("N").in_range(1, 1024).show_default();
  sub.add_option("--threads", command->threads, "threads of each run (default: as compiled)").type_name("N").positive();
  sub.add_option("--device", command->device, "cpu, cuda or cuda:N (cpu)").type_name("DEVICE");
  sub.add_option("--batch-delay", command->batch_delay,
                 "microseconds that a request waits for others to share its run\n"
                 "(0: only requests that wait anyway share a run)")
      .type_name("US").not_negative();
  sub.add_option("--server", command->server,
                 "the program tritonserver (on the PATH, in /opt/tritonserver, or in python3's PyTriton)")
      .type_name("FILE");
  sub.add_option("--backends", command->backends, "the folder that has graft/libtriton_graft.so (beside this program)")
      .type_name("FOLDER");
  sub.add_option("--server-option", command->server_options,
                 "an option for the server: --log-verbose=1; may be repeated")
      .type_name("OPTION").expected(1).take_all();
  sub.add_option("--log", command->log,
                 "append a line of JSON for each run: time, model, identifiers of requests, duration, error")
      .type_name("FILE");
  sub.add_flag("--verbose", command->verbose, "also print the server's log");
  sub.footer(R"(
A model has the name of its file, without the extension. The protocol is the Open Inference Protocol v2, for
tritonclient, KServe and curl. For a repository and a configuration of your own, see docs/SERVING.md.
Examples:
  graft serve minilm.graft
  graft serve minilm.graft --instances 2 --threads 1 --batch-delay 500
  curl localhost:8000/v2/models/minilm)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
