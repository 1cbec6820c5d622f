#include "worker/launch/pmix_exchange.h"

#include <pmix.h>
#include <poll.h>
#include <string.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/dynamic_library.h"
#include "base/steady_time.h"

namespace farandole {

// The functions of libpmix.so.2, whose binary interface the standard keeps. Never unloaded: it has a thread.
struct PmixExchange::Library {
  const char* (*version)();
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Get_nb) get_nb;
  decltype(&PMIx_Error_string) error_string;

  //   FAILED_PRECONDITION  it cannot be loaded, or lacks a function
  absl::Status Load();
};

namespace {

constexpr char kLibrary[] = "libpmix.so.2";
constexpr char kKey[] = "farandole.launch";
// The server of this host answers from its memory.
constexpr absl::Duration kLocalAnswer = absl::Seconds(5);
// How often the caller's wish to give up is asked for, and rank 0's notice where PMIx does not wait for it.
constexpr absl::Duration kSurface = absl::Milliseconds(100);

// The answer to one question. Shared by the asking thread, which may have given up, and PMIx's thread, which answers.
struct Answer {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_there = false;
  pmix_status_t status = PMIX_SUCCESS;
  std::string text;

  void Give(pmix_status_t what, const pmix_value_t* value) {
    const std::lock_guard<std::mutex> lock(mutex);
    is_there = true;
    changed.notify_all();
    status = what;
    if (what == PMIX_SUCCESS && value != nullptr && value->type == PMIX_STRING) text = value->data.string;
  }
  bool Await(absl::Duration patience) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, absl::ToChronoNanoseconds(patience), [this] { return is_there; });
  }
};

void OnAnswer(pmix_status_t status, pmix_value_t* value, void* shared) {
  const std::unique_ptr<std::shared_ptr<Answer>> answer(static_cast<std::shared_ptr<Answer>*>(shared));
  (*answer)->Give(status, value);
}

std::shared_ptr<Answer> Ask(decltype(&PMIx_Get_nb) get_nb, const pmix_proc_t& process, const char* key) {
  auto answer = std::make_shared<Answer>();
  auto shared = std::make_unique<std::shared_ptr<Answer>>(answer);
  const pmix_status_t asked = get_nb(&process, key, nullptr, 0, &OnAnswer, shared.get());
  if (asked == PMIX_SUCCESS) {
    shared.release();  // OnAnswer has it.
  } else {
    answer->Give(asked, nullptr);
  }
  return answer;
}

// The servers do not wait for a process that has told other things already (MPI's), nor for one of the same host for
// more than 2 s.
bool MeansNotYet(pmix_status_t status) {
  return status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT || status == PMIX_ERR_PROC_ENTRY_NOT_FOUND;
}

// "4.2.2rc2" of "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, ...)" or "PMIx 3.1.5, repo rev: ...".
std::string VersionIn(const char* text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  return words.size() < 2 ? text : std::string(absl::StripSuffix(words[1], ","));
}

}  // namespace

absl::Status PmixExchange::Library::Load() {
  // That of MPI, where MPI is loaded already: the loader knows it by this name.
  const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open({kLibrary});
  if (!library.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("cannot load PMIx: ", library.status().message()));
  }
  absl::Status status;
  const auto find = [&](const char* name, auto* function) { status.Update(library->Find(name, function)); };
  find("PMIx_Get_version", &version);
  find("PMIx_Init", &init);
  find("PMIx_Finalize", &finalize);
  find("PMIx_Put", &put);
  find("PMIx_Commit", &commit);
  find("PMIx_Get_nb", &get_nb);
  find("PMIx_Error_string", &error_string);
  if (status.ok()) return status;
  return absl::FailedPreconditionError(absl::StrCat("PMIx is broken: ", status.message()));
}

absl::StatusOr<std::unique_ptr<PmixExchange>> PmixExchange::Open(const ForeignLaunch& launch) {
  auto library = std::make_unique<Library>();
  if (absl::Status loaded = library->Load(); !loaded.ok()) return loaded;
  const std::string version = VersionIn(library->version());
  if (version != launch.pmix_version) {
    return absl::FailedPreconditionError(
        absl::StrCat(kLibrary, " is of PMIx ", version, ", but ", launch.launcher, " serves PMIx ",
                     launch.pmix_version.empty() ? "of an unknown version" : launch.pmix_version));
  }
  pmix_proc_t own = {};
  const pmix_status_t status = library->init(&own, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot connect with the PMIx server of ", launch.launcher, ": ", library->error_string(status)));
  }
  std::unique_ptr<PmixExchange> pmix(new PmixExchange(std::move(library), own.nspace));
  if (pmix->launch_ == launch.pmix_namespace && own.rank == static_cast<pmix_rank_t>(launch.rank)) return pmix;
  return absl::FailedPreconditionError(absl::StrCat("PMIx takes this process for rank ", own.rank, " of ",
                                                    pmix->launch_, ", but ", launch.launcher, " calls it rank ",
                                                    launch.rank, " of ", launch.pmix_namespace));
}

PmixExchange::PmixExchange(std::unique_ptr<Library> library, std::string launch)
    : library_(std::move(library)), launch_(std::move(launch)) {}

PmixExchange::~PmixExchange() { library_->finalize(nullptr, 0); }

std::vector<int> PmixExchange::FindLocalRanks() {
  pmix_proc_t all = {};
  strncpy(all.nspace, launch_.c_str(), PMIX_MAX_NSLEN);
  all.rank = PMIX_RANK_WILDCARD;
  const std::shared_ptr<Answer> answer = Ask(library_->get_nb, all, PMIX_LOCAL_PEERS);
  // The server has told it at the start.
  if (!answer->Await(kLocalAnswer)) return {};
  std::vector<int> ranks;
  for (const absl::string_view word : absl::StrSplit(answer->text, ',', absl::SkipEmpty())) {
    int rank = 0;
    if (!absl::SimpleAtoi(word, &rank)) return {};
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

absl::Status PmixExchange::Pin(const std::string& text) {
  pmix_value_t value = {};
  value.type = PMIX_STRING;
  value.data.string = const_cast<char*>(text.c_str());
  pmix_status_t status = library_->put(PMIX_GLOBAL, kKey, &value);
  if (status == PMIX_SUCCESS) status = library_->commit();
  if (status == PMIX_SUCCESS) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot tell other hosts of the job's coordinator by PMIx: ", library_->error_string(status)));
}

absl::StatusOr<std::string> PmixExchange::Read(absl::Time deadline, const std::function<bool()>& interrupted) {
  pmix_proc_t first = {};
  strncpy(first.nspace, launch_.c_str(), PMIX_MAX_NSLEN);
  for (;;) {
    const std::shared_ptr<Answer> answer = Ask(library_->get_nb, first, kKey);
    bool is_there = false;
    do {
      if (SteadyNow() >= deadline) return absl::DeadlineExceededError("rank 0 tells nothing by PMIx");
      if (interrupted && interrupted()) return absl::AbortedError("joining the job was interrupted");
      is_there = answer->Await(kSurface);
    } while (!is_there);
    if (answer->status == PMIX_SUCCESS && !answer->text.empty()) return answer->text;
    if (answer->status == PMIX_SUCCESS || !MeansNotYet(answer->status)) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot hear of the job's coordinator by PMIx: ", library_->error_string(answer->status)));
    }
    // PMIx has nothing to wait with for a notice beside earlier ones: Open MPI 4 and Slurm know no required keys.
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kSurface)));
  }
}

}  // namespace farandole
