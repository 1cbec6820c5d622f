// The commands of launches: their claims of the job, and the workers that they start.

#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/job/rules/bounds.h"
#include "server/job/script.h"

namespace farandole {
namespace {

int64_t NumberOf(absl::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

// Nonces have at least 16 bytes.
std::string NonceOf(const std::string& launch) { return absl::StrCat(launch, std::string(16, '.')); }

template <typename Arguments>
void FillElastic(const Arguments& arguments, v1::Elastic* elastic) {
  const std::vector<std::string> sizes = absl::StrSplit(arguments.Text("elastic"), ':');
  elastic->set_min_size(NumberOf(sizes[0]));
  elastic->set_max_size(NumberOf(sizes[1]));
  elastic->set_join_window_ms(absl::ToInt64Milliseconds(arguments.Duration("window", absl::Milliseconds(200))));
  elastic->set_shortage_limit_ms(absl::ToInt64Milliseconds(arguments.Duration("shortage", absl::Minutes(10))));
  elastic->set_stall_limit_ms(absl::ToInt64Milliseconds(arguments.Duration("stall_limit", absl::ZeroDuration())));
  elastic->set_reset_limit(arguments.Number("resets", 0));
  const std::vector<std::string> cooldown = absl::StrSplit(arguments.Text("cooldown", "0:0"), ':');
  elastic->set_least_cooldown_ms(NumberOf(cooldown[0]));
  elastic->set_most_cooldown_ms(NumberOf(cooldown[1]));
}

}  // namespace

void Script::Claim(const Arguments& arguments) {
  JobClaimed event{shell_->NewCall(), {}};
  event.request.set_job("mnist");
  event.request.mutable_launch()->set_nonce(NonceOf(arguments.subject));
  event.request.mutable_launch()->set_who(arguments.Text("who", absl::StrCat(arguments.subject, " on a")));
  event.request.mutable_launch()->set_traceparent(arguments.Text("traceparent"));
  event.request.mutable_launch()->set_token_id(arguments.Text("token"));
  if (arguments.Has("queued")) {
    const absl::Time came = shell_->now() - arguments.Duration("queued", absl::ZeroDuration());
    event.request.mutable_launch()->set_queued_unix_ms(absl::ToUnixMillis(came));
  }
  event.request.set_most_workers(arguments.Number("size", 2));
  event.request.set_attach(arguments.Has("attach"));
  event.request.set_release(arguments.Has("release"));
  const Actions actions = shell_->Step(event);
  for (const Output& output : actions.outputs) {
    const auto* reply = std::get_if<Reply>(&output);
    const auto* claimed = reply == nullptr ? nullptr : std::get_if<v1::CreateJobResponse>(&reply->message);
    if (claimed != nullptr) launches_.insert({arguments.subject, claimed->launch()});
  }
  Show(actions);
}

void Script::Join(const Arguments& given) {
  const auto number = static_cast<uint32_t>(given.subject.empty() ? 0 : NumberOf(given.subject.substr(1)));
  Arguments arguments = given;
  if (given.Has("after")) {
    // The same process with another incarnation.
    const std::string earlier = given.Text("after");
    arguments.values.insert(joined_as_[earlier].begin(), joined_as_[earlier].end());
  }
  arguments.values.emplace("pid", absl::StrCat(100 + number));
  arguments.values.emplace("index", absl::StrCat(number));
  joined_as_[given.subject] = arguments.values;
  JoinRequested event{shell_->NewCall(), {}};
  if (arguments.Has("launch")) event.launch = launches_[arguments.Text("launch")];
  if (!arguments.Has("launch")) event.launch.set_token_id(arguments.Text("token"));
  event.token_id = arguments.Text("token", event.launch.token_id());
  event.part_of = arguments.Text("of");
  token_of_[arguments.subject] = event.token_id;
  v1::JoinRequest& request = event.request;
  request.set_job(arguments.Text("job", "mnist"));
  request.mutable_member()->set_incarnation(arguments.Text("incarnation", IncarnationOf(arguments.subject)));
  request.mutable_member()->set_host_id(arguments.Text("host", "a"));
  request.mutable_member()->set_hostname(arguments.Text("hostname", request.member().host_id()));
  request.mutable_member()->set_pid(arguments.Number("pid", 100 + number));
  for (int i = 0; i < arguments.Number("endpoints", 1); ++i)
    request.mutable_member()->add_endpoints(absl::StrCat("unix-abstract:", number, ".", i));
  request.set_wanted_size(arguments.Number("size", 2));
  request.set_launch_index(arguments.Number("index", number));
  request.set_protocol_version(arguments.Number("protocol", kProtocolVersion));
  request.set_version("1.0");
  request.set_join_timeout_ms(absl::ToInt64Milliseconds(arguments.Duration("timeout", absl::Seconds(60))));
  request.set_stall_warning_ms(absl::ToInt64Milliseconds(arguments.Duration("stall", absl::Seconds(60))));
  if (arguments.Has("elastic")) FillElastic(arguments, request.mutable_elastic());
  if (given.Has("after")) request.set_predecessor(IncarnationOf(given.Text("after")));
  Step(event);
}

void Script::Exit(const Arguments& arguments) {
  ExitReported event{shell_->NewCall(), {}};
  event.request.set_job("mnist");
  event.request.set_launch_index(NumberOf(arguments.subject));
  event.request.set_failed(arguments.Number("failed", 1) != 0);
  event.request.set_end(arguments.Text("end", "SIGKILL"));
  event.request.set_host(arguments.Text("host", "a"));
  event.only_of_token = arguments.Text("by");
  Step(event);
}

}  // namespace farandole
