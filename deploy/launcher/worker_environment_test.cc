#include "deploy/launcher/worker_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::Contains;
using testing::UnorderedElementsAre;

WorkerSettings Settings() {
  WorkerSettings settings;
  settings.coordinator = "127.0.0.1:4000";
  settings.token_file = "/state/token";
  settings.job = "train";
  settings.size = 3;
  settings.cores = 8;
  return settings;
}

TEST(WorkerEnvironmentTest, AWorkerIsToldWhoItIsAndWhereToJoin) {
  WorkerSettings settings = Settings();
  settings.inherited = {"HOME=/home/me", "EMPTY="};
  settings.join_timeout_ms = 1500;
  EXPECT_THAT(settings.Environment(2),
              UnorderedElementsAre("HOME=/home/me", "EMPTY=", "FARANDOLE_COORDINATOR=127.0.0.1:4000",
                                   "FARANDOLE_TOKEN_FILE=/state/token", "FARANDOLE_JOB=train", "FARANDOLE_SIZE=3",
                                   "FARANDOLE_LAUNCH_INDEX=2", "FARANDOLE_JOIN_TIMEOUT_MS=1500", "OMP_NUM_THREADS=2",
                                   "PYTHONUNBUFFERED=1"));
}

TEST(WorkerEnvironmentTest, WhatTheUserHasSetStaysButForTheLaunchersOwn) {
  WorkerSettings settings = Settings();
  settings.inherited = {"OMP_NUM_THREADS=5", "PYTHONUNBUFFERED=", "FARANDOLE_SIZE=99", "FARANDOLE_LAUNCH_INDEX=9"};
  EXPECT_FALSE(settings.SetsOmpThreads());
  EXPECT_THAT(settings.Environment(0),
              UnorderedElementsAre("OMP_NUM_THREADS=5", "PYTHONUNBUFFERED=", "FARANDOLE_COORDINATOR=127.0.0.1:4000",
                                   "FARANDOLE_TOKEN_FILE=/state/token", "FARANDOLE_JOB=train", "FARANDOLE_SIZE=3",
                                   "FARANDOLE_LAUNCH_INDEX=0"));
}

TEST(WorkerEnvironmentTest, EachWorkerHasAtLeastOneThread) {
  WorkerSettings settings = Settings();
  settings.size = 16;
  EXPECT_THAT(settings.Environment(0), Contains("OMP_NUM_THREADS=1"));
}

}  // namespace
}  // namespace farandole::launcher
