#include "worker/launch/foreign_launch.h"

#include <map>
#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<ForeignLaunch>> Find(const Variables& variables) {
  return FindForeignLaunch(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      "4711-99");
}

TEST(ForeignLaunchTest, AProgramThatNobodyLaunchedHasNone) {
  EXPECT_FALSE(Find({{"PATH", "/bin"}})->has_value());
  EXPECT_FALSE(Find({{"OMPI_COMM_WORLD_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", ""}})->has_value());
}

TEST(ForeignLaunchTest, OpenMpiHasADirectoryPerSession) {
  const auto launch = Find({{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "prterun/host@1"},
                            {"PMIX_RANK", "2"},
                            {"PMIX_VERSION", "4.2.2rc2"},
                            {"PMIX_SERVER_TMPDIR", "/tmp/ompi.vm.0/pid.1"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_JOB_ID", "7"},
                            {"SLURM_STEP_ID", "0"}});
  ASSERT_TRUE(launch.ok() && launch->has_value()) << "also inside an allocation of Slurm";
  EXPECT_EQ((*launch)->launcher, "mpirun");
  EXPECT_EQ((*launch)->rank, 2);
  EXPECT_EQ((*launch)->size, 4);
  EXPECT_EQ((*launch)->local_size, 4);
  EXPECT_EQ((*launch)->directory, "/tmp/ompi.vm.0/pid.1");
  EXPECT_EQ((*launch)->name, "mpirun.prterun-host-1");
  EXPECT_EQ((*launch)->pmix_namespace, "prterun/host@1");
  EXPECT_EQ((*launch)->pmix_version, "4.2.2rc2");
  EXPECT_EQ((*launch)->processes.number_variable, "OMPI_COMM_WORLD_RANK");
  EXPECT_EQ((*launch)->processes.common_variables, std::vector<std::string>{"PMIX_NAMESPACE"});
  EXPECT_EQ((*launch)->processes.here, (std::vector<int>{0, 1, 2, 3}));
}

TEST(ForeignLaunchTest, HydrasProcessesAreNamedAfterTheirParent) {
  const auto launch = Find({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}});
  ASSERT_TRUE(launch.ok() && launch->has_value());
  EXPECT_EQ((*launch)->local_size, 1);
  EXPECT_EQ((*launch)->name, "hydra.4711-99");
  EXPECT_FALSE((*launch)->is_named_everywhere);
  EXPECT_EQ((*launch)->directory, "");
}

TEST(ForeignLaunchTest, AStepOfSlurmIsOneLaunch) {
  Variables variables = {{"SLURM_JOB_ID", "12"},
                         {"SLURM_CLUSTER_NAME", "big one"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_NNODES", "2"}};
  EXPECT_FALSE(Find(variables)->has_value()) << "a batch script is no worker";
  variables["SLURM_STEP_ID"] = "3";
  variables["SLURM_STEP_NUM_TASKS"] = "2";
  variables["SLURM_STEP_NUM_NODES"] = "1";
  const auto launch = Find(variables);
  ASSERT_TRUE(launch.ok() && launch->has_value());
  EXPECT_EQ((*launch)->launcher, "srun");
  EXPECT_EQ((*launch)->size, 2);
  EXPECT_EQ((*launch)->local_size, 2);
  EXPECT_EQ((*launch)->name, "srun.big-one.12.3.0");
  EXPECT_TRUE((*launch)->is_named_everywhere);
  EXPECT_EQ((*launch)->pmix_namespace, "") << "it was not asked for";
  variables["SLURM_STEP_NUM_NODES"] = "2";
  EXPECT_LT((**Find(variables)).local_size, 2) << "not all are here";
}

TEST(ForeignLaunchTest, WhatNoLauncherSetsIsNamed) {
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})
                .status()
                .message(),
            "OMPI_COMM_WORLD_RANK is \"4\", but a launcher sets a number from 0 to 3");
  EXPECT_EQ(Find({{"PMI_RANK", "0"}, {"PMI_SIZE", "many"}, {"MPI_LOCALNRANKS", "1"}}).status().message(),
            "PMI_SIZE is \"many\", but a launcher sets a number from 1 to 65536");
}

}  // namespace
}  // namespace farandole
