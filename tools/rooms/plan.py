import pathlib, re
ROOM, T = {}, {}
def put(d, room, *stems):
    for s in stems: d[s] = room
put(ROOM, "core", "dtype", "doorbell", "clock", "hosts", "log", "lineage", "host_identity")
put(ROOM, "order", "ready_channel", "orderer", "epoch_page", "hosts_channel", "relay_frame", "relay_link", "relay_stream", "socket_stream", "test_relay", "test_posts", "orderer_join", "orderer_random")
put(ROOM, "engine", "engine", "engine_batch", "submission", "submission_control", "submission_posts", "submission_table", "request_check", "running_batch", "timeline", "profiler_ranges", "gpu_request", "test_epoch", "test_coordinator", "test_requests", "engine_arena", "engine_end", "engine_gpu", "engine_graph", "engine_join", "engine_names", "engine_split", "engine_stress")
put(ROOM, "member", "worker", "connections", "coordinator_link", "coordinator_events", "arenas", "checkpoint_session", "embedded_coordinator")
put(ROOM, "launch", "options", "foreign_launch", "horovod_variables", "noticeboard", "launch_record", "process_environment")
put(ROOM, "abi", "c_api", "c_arena", "c_call", "c_change", "c_checkpoint", "c_gpu", "c_process", "c_timeline")
put(ROOM, "", "farandole", "libfarandole", "libfarandole_gloo")
put(T, "transport", "transport")
put(T, "transport/shm", "shm_allgather", "shm_allreduce", "shm_arena_allreduce", "shm_arena", "shm_broadcast", "shm_layout", "shm_reducescatter", "shm_transport", "stage_copier", "staged_rounds", "epoch_memory", "arena", "arena_table", "fragment_walk", "host_door")
put(T, "transport/tcp", "tcp_transport", "socket_set", "silence_limit", "poller", "peer_dial", "peer_port", "peer_proof", "interface_address", "test_hosts")
put(T, "transport/hosts", "hosts_transport", "hosts_allreduce", "hosts_allreduce_bench", "host_part", "lone_host_part", "shared_host_part", "broadcast_over_hosts")
put(T, "transport/gloo", "gloo_library", "gloo_library_exports", "gloo_pair", "gloo_transport", "host_transports_bench")
put(T, "transport/testing", "conformance", "conformance_batch", "conformance_run", "inproc_fabric", "inproc_queue", "inproc_transport")
EXTRA_MOVES = {
    "worker/collectives/schedule_operation_test.cc": "worker/transport/testing/schedule_operation_test.cc",
    "worker/device/nccl_library.cc": "worker/device/nccl_library.cc", "worker/device/nccl_library.h": "worker/device/nccl_library.h",
    "worker/device/gpu_collectives.cc": "worker/device/nccl/gpu_collectives.cc", "worker/device/gpu_collectives.h": "worker/device/nccl/gpu_collectives.h",
    "server/loop/job_key.h": "server/registry/job_key.h",
    "server/testing/coordinator_fixture.h": "server/coordinator_fixture.h",
}
for s in ("metrics.h", "metrics.cc", "metrics_test.cc"): EXTRA_MOVES["server/" + s] = "server/metrics/" + s
JOB = {}
put(JOB, "rules", "agreement", "ballot", "bounds", "history", "member_record", "rank_order", "wording", "event", "actions")
put(JOB, "members", "roster", "lobby", "survivors", "lost_workers", "barred_hosts", "estranged_hosts", "broken_links", "accusations", "fence", "wanted_change")
put(JOB, "names", "negotiation", "group_table", "notice", "stall_watch", "reattachment", "owed_answers")
def room(path):
    p = pathlib.PurePosixPath(path)
    stem = p.name.split(".")[0]; base = re.sub(r"_test$", "", stem); folder = str(p.parent)
    def pick(d, top, default=None):
        r = d.get(stem, d.get(base, default))
        if r is None: return top + "/?" + p.name
        return f"{top}/{r}/{p.name}" if r else f"{top}/{p.name}"
    if folder == "worker": return pick(ROOM, "worker")
    if folder == "worker/transport": return pick(T, "worker")
    if folder == "worker/device":
        if stem.startswith("fake_"): return "worker/device/fake/" + p.name
        if stem.startswith("nccl_"): return "worker/device/nccl/" + p.name
    if folder == "server/job" and p.suffix in (".cc", ".h"): return pick(JOB, "server/job", "")
    return path
SPLITS = {
    "//worker:engine": {"//worker/order:order": ["worker/order/*"], "//worker/engine:engine": ["worker/engine/*"]},
    "//worker:worker": {"//worker/member:member": ["worker/member/*"], "//worker/abi:abi": ["worker/abi/*"], "//worker/core:log": ["worker/core/log.*"],
                        "//worker/core:lineage": ["worker/core/lineage.h"], "//worker/core:host_identity": ["worker/core/host_identity.*"]},
    "//worker/device:gpu": {"//worker/device:gpu": ["worker/device/*", "+worker/device/nccl_library.cc", "+worker/device/nccl_library.h"]},
    "//worker/device:nccl": {"//worker/device/nccl:nccl": ["worker/device/nccl/*"]},
    "//server/job:job": {"//server/job:job": ["server/job/*"], "//server/job/members:members": ["server/job/members/*"], "//server/job/names:names": ["server/job/names/*"],},
    "//server/job:rules": {"//server/job/rules:rules": ["server/job/rules/*", "+server/job/event.h", "+server/job/actions.h"]},
}
RULE_ROOMS = {"//worker/collectives:schedule_operation_test": "worker/transport/testing", "//server/job:job_test": "server/job"}
PACKAGE_HEADS = {}
RENAMES = [(("tools/install", "worker/device/fake_libraries.so"), "worker/device/fake/fake_libraries.so")]
TARGET_NAMES = {}
DROP_RULES = set()
L = {}
put(L, "policy", "stop_policy", "staffing", "host_list", "failure_report")
put(L, "process", "event_loop", "alarm_clock", "child_watch", "descendants", "guard", "worker_process", "worker_pipe", "private_file", "errands")
put(L, "output", "console", "worker_output", "output_directory", "terminal_input", "line_splitter", "line_tail", "output_sink", "job_directory")
put(L, "environment", "options", "horovod_options", "worker_environment", "nccl_interfaces", "own_addresses", "drop_in")
put(L, "protocol", "agent_frames", "agent_messages", "agent_protocol")
put(L, "places", "place", "places", "local_place", "ssh_place")
put(L, "agent", "host_agent")
put(L, "", "launch", "launched_run", "recruitment", "job_link", "host_discovery", "launcher", "elastic_launch")
_old_room = room
def room(path):
    p = pathlib.PurePosixPath(path)
    if str(p.parent) != "deploy/launcher": return _old_room(path)
    stem = p.name.split(".")[0]; base = re.sub(r"_test$", "", stem)
    r = L.get(stem, L.get(base))
    if r is None: return "deploy/launcher/?" + p.name
    return f"deploy/launcher/{r}/{p.name}" if r else path
SPLITS["//deploy/launcher:launch"] = {
    "//deploy/launcher:launch": ["deploy/launcher/*"],
    "//deploy/launcher/process:process": ["deploy/launcher/process/*"],
    "//deploy/launcher/output:output": ["deploy/launcher/output/*"],
    "//deploy/launcher/places:places": ["deploy/launcher/places/*"],
    "//deploy/launcher/agent:agent": ["deploy/launcher/agent/*"],
    "//deploy/launcher/policy:failure_report": ["deploy/launcher/policy/failure_report.*"],
}
AUTO_EXTRA = ("deploy/launcher/",)
_room2 = room
SCHED = "schedule symbolic_run pipeline group_shape exchange_shares binomial_tree_broadcast direct_allreduce direct_reducescatter dissemination_barrier hierarchical_allreduce hosts_broadcast leaders_allgather leaders_allreduce leaders_barrier pairwise_alltoall recursive_doubling_allreduce ring_allgather ring_allreduce ring_reducescatter allreduce_schedules data_schedules hosts_schedules".split()
CLI = "coordinator_session coordinator_source own_coordinator earlier_run state_paths catalogue_reader".split()
def room(path):
    p = pathlib.PurePosixPath(path)
    stem = p.name.split(".")[0]; base = re.sub(r"_test$", "", stem)
    if str(p.parent) == "worker/collectives" and (stem in SCHED or base in SCHED): return f"worker/collectives/schedules/{p.name}"
    if str(p.parent) == "deploy/cli" and (stem in CLI or base in CLI): return f"deploy/cli/coordinators/{p.name}"
    return _room2(path)
AUTO_EXTRA = ("deploy/launcher/", "deploy/cli/")
SPLITS["//deploy/cli:run_command"] = {"//deploy/cli:run_command": ["deploy/cli/*"], "//deploy/cli/coordinators:own_coordinator": ["deploy/cli/coordinators/*"]}
SPLITS["//deploy/cli:checkpoint_command"] = {"//deploy/cli:checkpoint_command": ["deploy/cli/*"], "//deploy/cli/coordinators:catalogue_reader": ["deploy/cli/coordinators/*"]}
