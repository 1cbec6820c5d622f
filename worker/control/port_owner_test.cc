#include "worker/control/port_owner.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kHeader[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

// A line of the table, as on a little-endian machine.
std::string Line(const std::string& local, const std::string& remote, const std::string& state, int owner,
                 int inode = 5212592) {
  return absl::StrCat("   0: ", local, " ", remote, " ", state, " 00000000:00000000 00:00000000 00000000 ", owner,
                      "        0 ", inode, " 1 00000000fadadaf6 100 0 0 10 0\n");
}

constexpr char kNone[] = "00000000:0000";
constexpr char kAny[] = "00000000:1B9E";          // 0.0.0.0:7070
constexpr char kCoordinator[] = "0100007F:1B9E";  // 127.0.0.1:7070
constexpr char kSelf[] = "0100007F:C000";         // 127.0.0.1:49152
constexpr char kNone6[] = "00000000000000000000000000000000:0000";
constexpr char kAny6[] = "00000000000000000000000000000000:1B9E";  // [::]:7070
constexpr char kMappedCoordinator[] = "0000000000000000FFFF00000100007F:1B9E";
constexpr char kMappedSelf[] = "0000000000000000FFFF00000100007F:C000";
constexpr char kSix[] = "00000000000000000000000001000000:1B9E";  // [::1]:7070

OwnConnection ConnectionBetween(const std::string& local, const std::string& remote) {
  const std::vector<SocketRow> rows = ParseSocketTable(Line(local, remote, "01", 0));
  EXPECT_EQ(rows.size(), 1u);
  return {rows[0].local, rows[0].remote};
}

TrustedUsers Trusting(std::vector<uid_t> users) { return {false, std::move(users), "the trusted"}; }

absl::StatusOr<bool> Check(const std::string& lines) {
  return CheckOtherEnd(ConnectionBetween(kSelf, kCoordinator), ParseSocketTable(kHeader + lines), Trusting({0, 1000}));
}

TEST(SocketTableTest, RowsHaveEndsOwnerAndInode) {
  const std::vector<SocketRow> rows =
      ParseSocketTable(absl::StrCat(kHeader, Line(kAny, kNone, "0A", 33, 77), Line(kSix, kNone6, "01", 1000, 0)));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].owner, 33u);
  EXPECT_EQ(rows[0].inode, 77u);
  EXPECT_EQ(rows[0].local.port, 7070);
  EXPECT_EQ(rows[1].inode, 0u);
  EXPECT_TRUE(IN6_IS_ADDR_LOOPBACK(&rows[1].local.address));
}

TEST(SocketTableTest, LinesThatItDoesNotUnderstandAreLeftOut) {
  EXPECT_TRUE(ParseSocketTable("").empty());
  EXPECT_TRUE(ParseSocketTable(kHeader).empty());
  EXPECT_TRUE(ParseSocketTable(Line("0100007F:", kNone, "0A", 0)).empty());
  EXPECT_TRUE(ParseSocketTable(Line("0100007F:1FFFF", kNone, "0A", 0)).empty());
  EXPECT_TRUE(ParseSocketTable(Line("010000:1B9E", kNone, "0A", 0)).empty());
  EXPECT_TRUE(ParseSocketTable(Line("0100007G:1B9E", kNone, "0A", 0)).empty());
  EXPECT_TRUE(ParseSocketTable(Line("0100007F0100007F:1B9E", kNone, "0A", 0)).empty());
  EXPECT_TRUE(ParseSocketTable("   0: 0100007F:1B9E 00000000:0000 0A").empty());
}

TEST(CheckOtherEndTest, AProgramOfATrustedUserMayHaveIt) {
  EXPECT_EQ(*Check(Line(kCoordinator, kSelf, "01", 1000)), true);
  EXPECT_EQ(*Check(Line(kMappedCoordinator, kMappedSelf, "01", 0)), true) << "it listens for IPv6 as well";
}

TEST(CheckOtherEndTest, AProgramOfAnotherUserIsNamed) {
  const absl::Status status = Check(Line(kCoordinator, kSelf, "01", 33)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("port 7070 of this host belongs to a program of user "), HasSubstr("33"),
                    HasSubstr("not of the trusted: nothing was sent to it"), HasSubstr("FARANDOLE_COORDINATOR_USERS"),
                    HasSubstr("FARANDOLE_CA_FILE")));
  // The coordinator listens again on the port that this program has left.
  EXPECT_EQ(Check(Line(kCoordinator, kNone, "0A", 1000) + Line(kCoordinator, kSelf, "01", 33)).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(CheckOtherEndTest, OtherSocketsDoNotMatter) {
  const std::string ours = Line(kCoordinator, kSelf, "01", 1000);
  EXPECT_EQ(*Check(Line(kAny, kNone, "0A", 33) + ours), true);
  EXPECT_EQ(*Check(Line(kAny6, kNone6, "0A", 33) + ours), true) << "for IPv6 alone, beside the coordinator";
  EXPECT_EQ(*Check(Line(kCoordinator, "0100007F:C001", "01", 33) + ours), true);
}

TEST(CheckOtherEndTest, AnEndThatNoProgramHasIsNobodys) {
  EXPECT_EQ(*Check(Line(kCoordinator, kSelf, "01", 0, /*inode=*/0)), false) << "not accepted, or closed";
}

TEST(CheckOtherEndTest, AnEndWithoutARowIsUnavailable) {
  EXPECT_EQ(Check("").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Check(Line(kCoordinator, kNone, "0A", 1000)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Check(Line(kSelf, kCoordinator, "01", 1000)).status().code(), absl::StatusCode::kUnavailable)
      << "this end is not the other one";
}

TEST(TrustedUsersTest, RootAndOneselfAndThoseOfTheSettingAreTrusted) {
  const auto find = [](const std::string& name) -> uid_t { return name == "farandole" ? 999 : static_cast<uid_t>(-1); };
  TrustedUsers trusted = ParseTrustedUsers(1000, "", find);
  EXPECT_THAT(trusted.users, ElementsAre(0, 1000, 999));
  EXPECT_EQ(trusted.names, "root or user 1000 or farandole");
  EXPECT_FALSE(trusted.anyone);
  EXPECT_THAT(ParseTrustedUsers(0, "nobody-here, 33", find).users, ElementsAre(0, 33));
  EXPECT_TRUE(ParseTrustedUsers(0, "*", find).anyone);
}

// A socket that listens on a free port of 127.0.0.1.
int Listen(uint16_t* port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
  socklen_t bytes = sizeof name;
  EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&name), bytes), 0);
  EXPECT_EQ(listen(descriptor, 8), 0);
  EXPECT_EQ(getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &bytes), 0);
  *port = ntohs(name.sin_port);
  return descriptor;
}

int Connect(uint16_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {}};
  EXPECT_EQ(connect(descriptor, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  return descriptor;
}

TEST(CheckPortOwnerTest, AProgramOfTheSameUserIsTrustedWhenItHasAccepted) {
  uint16_t port = 0;
  const int listener = Listen(&port);
  EXPECT_EQ(CheckPortOwner(port, "").code(), absl::StatusCode::kUnavailable) << "there is no connection yet";
  const int ours = Connect(port);
  EXPECT_EQ(CheckPortOwner(port, "").code(), absl::StatusCode::kUnavailable) << "it has not accepted";
  const int theirs = accept(listener, nullptr, nullptr);
  EXPECT_EQ(CheckPortOwner(port, ""), absl::OkStatus());
  const int waiting = Connect(port);
  EXPECT_EQ(CheckPortOwner(port, ""), absl::OkStatus()) << "another one that nobody has accepted does not matter";
  close(waiting);
  close(theirs);
  EXPECT_EQ(CheckPortOwner(port, "").code(), absl::StatusCode::kUnavailable) << "the other end has hung up";
  close(ours);
  close(listener);
}

TEST(CheckPortOwnerTest, AConnectionToAnotherUserIsBroken) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can run a program as another user";
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setuid(65534) != 0) _exit(1);
    uint16_t port = 0;
    const int listener = Listen(&port);
    if (write(told[1], &port, sizeof port) != sizeof port) _exit(1);
    while (true) {
      const int accepted = accept(listener, nullptr, nullptr);
      // It says that it has accepted, and then that it will send no more; it goes on reading.
      if (send(accepted, "1", 1, 0) != 1) _exit(1);
      char byte = 0;
      if (recv(accepted, &byte, 1, 0) == 1) shutdown(accepted, SHUT_WR);
    }
  }
  uint16_t port = 0;
  ASSERT_EQ(read(told[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  char byte = 0;
  // A connection that the stranger has accepted.
  const auto connect = [&] {
    const int ours = Connect(port);
    EXPECT_EQ(recv(ours, &byte, 1, 0), 1);
    return ours;
  };
  const int ours = connect();
  const absl::Status status = CheckPortOwner(port, "");
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("65534"));
  EXPECT_EQ(send(ours, "1", 1, MSG_NOSIGNAL), -1) << "the connection is broken";

  const int half_closed = connect();
  ASSERT_EQ(send(half_closed, "1", 1, MSG_NOSIGNAL), 1);
  ASSERT_EQ(recv(half_closed, &byte, 1, 0), 0);
  EXPECT_EQ(CheckPortOwner(port, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(send(half_closed, "1", 1, MSG_NOSIGNAL), -1) << "the stranger would have read it";

  const int believed = connect();
  EXPECT_EQ(CheckPortOwner(port, "65534"), absl::OkStatus());
  for (const int descriptor : {ours, half_closed, believed, told[0], told[1]}) close(descriptor);
  kill(stranger, SIGKILL);
  EXPECT_EQ(waitpid(stranger, nullptr, 0), stranger);
}

}  // namespace
}  // namespace farandole
