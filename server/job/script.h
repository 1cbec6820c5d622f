#ifndef FARANDOLE_SERVER_JOB_SCRIPT_H_
#define FARANDOLE_SERVER_JOB_SCRIPT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/job/test_shell.h"

namespace farandole {

// Plays a scenario, written in the language of testdata/README.md, against one Job. Commands name workers w0, w1, ...;
// the job's actions come back as text. A command that is wrong answers with a line that starts with "error:".
class Script {
 public:
  Script();

  // The job's outputs after one command.
  std::string Play(const std::string& command);
  const TestShell& shell() const { return *shell_; }

 private:
  // A command's words after its name: the worker (or another first word) and key=value pairs.
  struct Arguments {
    std::string subject;
    std::map<std::string, std::string> values;
    std::vector<std::string> words;

    bool Has(const std::string& key) const { return values.count(key) > 0; }
    std::string Text(const std::string& key, const std::string& otherwise = "") const;
    int64_t Number(const std::string& key, int64_t otherwise) const;
    absl::Duration Duration(const std::string& key, absl::Duration otherwise) const;
  };
  using Command = void (Script::*)(const Arguments&);
  static const std::map<std::string, Command>& Commands();
  static Arguments Parse(const std::string& text);

  void Options(const Arguments& arguments);
  void Start(const Arguments& arguments);
  void Claim(const Arguments& arguments);
  void Join(const Arguments& arguments);
  void Hello(const Arguments& arguments);
  void Ready(const Arguments& arguments);
  void Group(const Arguments& arguments);
  void Retire(const Arguments& arguments);
  void Beat(const Arguments& arguments);
  void Lost(const Arguments& arguments);
  void Stall(const Arguments& arguments);
  void Gpu(const Arguments& arguments);
  void Leave(const Arguments& arguments);
  void Depart(const Arguments& arguments);
  void Ended(const Arguments& arguments);
  void Exit(const Arguments& arguments);
  void Drain(const Arguments& arguments);
  void Close(const Arguments& arguments);
  void Advance(const Arguments& arguments);
  void Oversleep(const Arguments& arguments);
  void StepWallClock(const Arguments& arguments);
  void Restart(const Arguments& arguments);
  void Begin(const Arguments& arguments);
  void Commit(const Arguments& arguments);
  void Find(const Arguments& arguments);
  void List(const Arguments& arguments);
  void Inspect(const Arguments& arguments);
  void Summary(const Arguments& arguments);
  void Abort(const Arguments& arguments);
  void Delete(const Arguments& arguments);
  void Rows(const Arguments& arguments);
  void Tick(const Arguments& arguments);

  void Step(const Event& event) { Show(shell_->Step(event)); }
  void Say(const std::string& worker, v1::WorkerMessage message);
  // The epoch that the worker believes to be in, or what the command says.
  uint64_t EpochOf(const Arguments& arguments) const;
  void BeatAll(const Arguments& arguments);
  void Show(const Actions& actions);
  void ShowPersisted(const StoreBatch& batch);
  void Line(const std::string& line);
  // "w0" for its present stream, "w0 (stream 1)" for an earlier one.
  std::string NameOf(StreamId stream) const;

  std::unique_ptr<TestShell> shell_;
  std::map<std::string, StreamId> stream_of_;
  std::map<StreamId, std::string> owner_of_;
  // Each launch that has claimed the job, as the coordinator knows it.
  std::map<std::string, v1::Launch> launches_;
  // How each worker joined last.
  std::map<std::string, std::map<std::string, std::string>> joined_as_;
  // The token that each worker was started with.
  std::map<std::string, std::string> token_of_;
  // The epoch and rank that epoch_formed gave each worker.
  std::map<std::string, std::pair<uint64_t, uint32_t>> place_of_;
  uint64_t beats_ = 0;
  std::string output_;
};

// The incarnation that scripts give to worker "w7"; 32 hexadecimal digits.
std::string IncarnationOf(const std::string& worker);
// `message` in one line, as scripts show it.
std::string ShowMessage(const v1::CoordinatorMessage& message);
// `reply` in one or more lines.
std::string ShowReply(const Reply& reply);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_SCRIPT_H_
