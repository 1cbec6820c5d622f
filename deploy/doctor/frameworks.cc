#include "deploy/doctor/frameworks.h"

#include <unistd.h>

#include <filesystem>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/doctor/program_output.h"

namespace farandole::doctor {
namespace {

constexpr char kPython[] = "python";
constexpr char kModule[] = "";
constexpr char kInstall[] =
    "pip install farandole's wheel into it, or make install in a checkout and use its .venv/bin/python; --python names "
    "another";

// Lines "NAME VALUE". The current directory is taken out of the path: a torch.py or json.py there is not meant.
constexpr char kScript[] = R"(
import sys
sys.path = [part for part in sys.path if part]
import importlib.metadata, importlib.util, pathlib
print("python", sys.version.split()[0])
for name, packages in {
    "torch": ["torch"],
    "tensorflow": ["tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"],
    "keras": ["keras"],
    "tf-keras": ["tf-keras"],
    "mxnet": ["mxnet", "mxnet-cu112", "mxnet-mkl"],
    "jax": ["jax"],
    "numpy": ["numpy"],
    "nccl": ["nvidia-nccl-cu13", "nvidia-nccl-cu12"],
    "horovod": ["horovod"],
}.items():
    for package in packages:
        try:
            print(name, importlib.metadata.version(package))
            break
        except importlib.metadata.PackageNotFoundError:
            pass
found = importlib.util.find_spec("farandole")
if found is not None and found.origin is not None:
    library = pathlib.Path(found.origin).parent / "_lib" / "libfarandole.so"
    print("farandole" if library.exists() else "incomplete", pathlib.Path(found.origin).parent)
)";

std::string ValueOf(const std::string& written, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(written, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (parts.first == name) return std::string(parts.second);
  }
  return "";
}

using Version = std::vector<int>;

// A package that Farandole's module for a framework needs in some versions.
struct Need {
  const char* framework;
  const char* what;  // needs it; kModule: the module as a whole
  const char* package;
  Version least;
  Version below;  // empty: no bound
  const char* advice;
};

bool IsOfModule(const Need& need) { return *need.what == '\0'; }

const std::vector<Need>& Needs() {
  static const auto* const needs = new std::vector<Need>{
      {"tensorflow", kModule, "tensorflow", {2, 13}, {}, "pip install 'tensorflow>=2.13'"},
      {"jax", kModule, "jax", {0, 4, 38}, {}, "pip install 'jax>=0.4.38'"},
      {"mxnet", kModule, "mxnet", {1, 9, 1}, {}, "pip install mxnet==1.9.1"},
      // MXNet's last release uses names that these have removed.
      {"mxnet", kModule, "numpy", {}, {1, 24}, "pip install numpy==1.23.5"},
      {"mxnet", kModule, kPython, {}, {3, 12}, "use a Python up to 3.11"},
      {"keras", kModule, "keras", {3}, {}, "import farandole.tensorflow.keras, or pip install 'keras>=3'"},
      {"tensorflow",
       "an operation of farandole.tensorflow in a function with jit_compile=True",
       "tensorflow",
       {2, 21},
       {},
       "use jit_compile=False for it, or pip install 'tensorflow>=2.21'"},
  };
  return *needs;
}

// The leading numbers of a version: 2, 13 and 0 of "2.13.0rc1".
Version NumbersOf(const std::string& version) {
  Version numbers;
  for (const absl::string_view part : absl::StrSplit(version, '.')) {
    const absl::string_view digits = part.substr(0, part.find_first_not_of("0123456789"));
    int number = 0;
    if (!absl::SimpleAtoi(digits, &number)) break;
    numbers.push_back(number);
  }
  return numbers;
}

// The sentence about a need that is not met; empty where it is, or where the framework or the package is not there.
std::string ProblemOf(const Need& need, const std::string& written) {
  const std::string found = ValueOf(written, need.package);
  if (ValueOf(written, need.framework).empty() || found.empty()) return "";
  const Version version = NumbersOf(found);
  const bool is_too_new = !need.below.empty() && version >= need.below;
  if (version >= need.least && !is_too_new) return "";
  return absl::StrCat(IsOfModule(need) ? absl::StrCat("farandole.", need.framework) : need.what, " needs ",
                      need.package, is_too_new ? " before " : " from ",
                      absl::StrJoin(is_too_new ? need.below : need.least, "."), is_too_new ? "" : " on",
                      ", and this Python has ", found);
}

// Why the module for a framework cannot be imported, if `python` works and has the package of Farandole.
std::string WhyNot(const std::string& framework, const std::string& written) {
  if (ValueOf(written, framework).empty()) return "not installed";
  for (const Need& need : Needs()) {
    if (need.framework != framework || !IsOfModule(need)) continue;
    const std::string problem = ProblemOf(need, written);
    if (!problem.empty()) return problem;
  }
  return "";
}

// Warns of frameworks that are there, but in a version, or beside one of another package, that cannot be used, or not
// for all that Farandole does.
void AddUnusable(const std::string& written, Findings* findings) {
  for (const Need& need : Needs()) {
    const std::string problem = ProblemOf(need, written);
    const bool is_told = !IsOfModule(need) && !WhyNot(need.framework, written).empty();
    if (!problem.empty() && !is_told) findings->push_back(Warn(need.framework, problem, need.advice));
  }
}

}  // namespace

std::string PythonOf(const std::string& program) {
  const std::filesystem::path directory = std::filesystem::path(program).parent_path();
  if (directory.empty()) return "python3";
  // The wheel's lies in PREFIX/lib/pythonX.Y/site-packages/farandole/_bin.
  const std::filesystem::path bin = directory.filename() == "_bin" ? directory / "../../../../../bin" : directory;
  const std::filesystem::path python = (bin / "python3").lexically_normal();
  return access(python.c_str(), X_OK) == 0 ? python.string() : "python3";
}

Findings ReadFrameworks(const std::string& python, const std::string& written) {
  Findings findings;
  const std::string version = ValueOf(written, kPython);
  if (version.empty()) {
    const std::vector<std::string> lines = absl::StrSplit(written, '\n', absl::SkipWhitespace());
    return {Warn(kPython, absl::StrCat(python, " does not work: ", lines.empty() ? "it said nothing" : lines.back()),
                 "repair it, or name another one by --python")};
  }
  findings.push_back(Ok(kPython, absl::StrCat(version, " (", python, ")")));
  std::vector<std::string> frameworks;
  for (const char* name : {"torch", "tensorflow", "keras", "tf-keras", "mxnet", "jax", "numpy"}) {
    const std::string found = ValueOf(written, name);
    if (!found.empty()) frameworks.push_back(absl::StrCat(name, " ", found));
  }
  findings.push_back(frameworks.empty() ? Warn("frameworks", "none of torch, tensorflow, keras, mxnet, jax and numpy",
                                               "install the one that your programs use into this Python")
                                        : Ok("frameworks", absl::StrJoin(frameworks, ", ")));
  AddUnusable(written, &findings);
  if (const std::string package = ValueOf(written, "farandole"); !package.empty()) {
    findings.push_back(Ok("package", absl::StrCat("farandole in ", package)));
  } else if (const std::string incomplete = ValueOf(written, "incomplete"); !incomplete.empty()) {
    findings.push_back(Warn("package", absl::StrCat("farandole in ", incomplete, " lacks _lib/libfarandole.so"),
                            "install the wheel again, or run make install in the checkout"));
  } else {
    findings.push_back(Warn("package", absl::StrCat("this Python cannot import farandole"), kInstall));
  }
  if (const std::string horovod = ValueOf(written, "horovod"); !horovod.empty()) {
    findings.push_back(Warn("horovod", absl::StrCat("Horovod ", horovod, " is installed as well"),
                            "a program must import one of the two only"));
  }
  return findings;
}

Findings CheckFrameworks(const std::string& python, const std::vector<std::string>& environment, absl::Duration limit) {
  const absl::StatusOr<ProgramOutput> output = RunProgram({python, "-c", kScript}, environment, limit);
  if (!output.ok())
    return {Warn(kPython, std::string(output.status().message()), "install python3, or name one by --python")};
  return ReadFrameworks(python, output->text);
}

std::vector<FrameworkUse> ReadUsableFrameworks(const std::string& python, const std::string& written) {
  std::string problem;
  if (ValueOf(written, kPython).empty()) {
    problem = absl::StrCat(python, " does not work");
  } else if (ValueOf(written, "farandole").empty()) {
    problem = absl::StrCat(python, " cannot import farandole");
  }
  std::vector<FrameworkUse> uses;
  for (const auto& [name, framework] :
       {std::pair("TensorFlow", "tensorflow"), std::pair("PyTorch", "torch"), std::pair("MXNet", "mxnet"),
        std::pair("Keras", "keras"), std::pair("JAX", "jax")}) {
    uses.push_back({name, problem.empty() ? WhyNot(framework, written) : problem});
  }
  return uses;
}

std::vector<FrameworkUse> FindUsableFrameworks(const std::string& python, const std::vector<std::string>& environment,
                                               absl::Duration limit) {
  const absl::StatusOr<ProgramOutput> output = RunProgram({python, "-c", kScript}, environment, limit);
  return ReadUsableFrameworks(python, output.ok() ? output->text : "");
}

Findings CheckSdks(const std::string& program) {
  const std::filesystem::path above = std::filesystem::path(program).parent_path().parent_path();
  Findings findings;
  for (const auto& [subject, file, client_file, folder] :
       {std::tuple("C++", "include/farandole/farandole.h", "include/farandole/client.h", ""),
        std::tuple("Go", "share/farandole/go/go.mod", "share/farandole/go/client/go.mod", "share/farandole/go")}) {
    findings.push_back(
        Ok(subject, "no SDK beside this program; the wheel has it, and make install PREFIX= in a checkout"));
    for (const auto& [sdk, libraries] : {std::pair(above, above / "lib"), std::pair(above / "_sdk", above / "_lib")}) {
      if (access((sdk / file).c_str(), R_OK) != 0) continue;
      const std::string place = (*folder == '\0' ? sdk : sdk / folder).string();
      const bool has_client = access((sdk / client_file).c_str(), R_OK) == 0;
      const char* client = has_client ? ", with the control plane's client" : ", without the control plane's client";
      findings.back() =
          access((libraries / "libfarandole.so").c_str(), R_OK) == 0
              ? Ok(subject, absl::StrCat("SDK in ", place, client))
              : Warn(subject, absl::StrCat("the SDK in ", place, " lacks ", libraries.string(), "/libfarandole.so"),
                     "install the wheel again, or run make install PREFIX= in the checkout");
      break;
    }
  }
  return findings;
}

}  // namespace farandole::doctor
