// Waits for a job to end, and prints a line whenever what blocks it changes. It takes part in no job.
//
//   FARANDOLE_COORDINATOR=HOST:PORT FARANDOLE_TOKEN_FILE=FILE operator JOB
//
// It waits for the job to come as well. Exit codes: 0 the job has finished, 1 it has failed, 2 it could not be watched.
#include <cstdio>
#include <string>

#include "farandole/client.h"

namespace {

namespace control = farandole::client;

std::string LineOf(const control::Summary& job) {
  const std::string blocker = job.Blocker();
  return "job " + job.name + " is " + NameOf(job.state) + ": " + (blocker.empty() ? job.reason : blocker);
}

int GiveUp(const farandole::Status& status) {
  std::fprintf(stderr, "operator: %s\n", status.message().c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "operator: name one job\n");
    return 2;
  }
  const farandole::StatusOr<control::Options> options = control::Options::FromEnvironment();
  if (!options.ok()) return GiveUp(options.status());
  const farandole::StatusOr<control::Client> client = control::Client::Open(*options);
  if (!client.ok()) return GiveUp(client.status());
  const std::string name = argv[1];
  std::string last;
  for (control::Watch watch = client->Watch({name});;) {
    const auto next = watch.Next();
    const bool has_come = next.ok() || next.status().code() != farandole::StatusCode::kNotFound;
    if (!next.ok() && has_come) return GiveUp(next.status());
    const std::string line = has_come ? LineOf((*next)->summary) : "job " + name + " has not come yet";
    if (line != last) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    last = line;
    if (has_come && (*next)->summary.HasEnded()) return (*next)->summary.state == control::State::kFinished ? 0 : 1;
  }
}
