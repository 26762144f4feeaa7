/* SPDX-License-Identifier: Apache-2.0 */
/* The list of route tables: one line each for the declaration and for the list, in the order of their names. */
#include "server/route.h"

extern const csn_route_table csn_routes_absent;
extern const csn_route_table csn_routes_code_run;
extern const csn_route_table csn_routes_events;
extern const csn_route_table csn_routes_execute;
extern const csn_route_table csn_routes_files;
extern const csn_route_table csn_routes_files_download;
extern const csn_route_table csn_routes_files_upload;
extern const csn_route_table csn_routes_git;
extern const csn_route_table csn_routes_git_remote;
extern const csn_route_table csn_routes_interpreter;
extern const csn_route_table csn_routes_keys;
extern const csn_route_table csn_routes_lifecycle;
extern const csn_route_table csn_routes_lists;
extern const csn_route_table csn_routes_misc;
extern const csn_route_table csn_routes_organizations;
extern const csn_route_table csn_routes_preview;
extern const csn_route_table csn_routes_pty;
extern const csn_route_table csn_routes_sandboxes;
extern const csn_route_table csn_routes_session_logs;
extern const csn_route_table csn_routes_sessions;
extern const csn_route_table csn_routes_settings;
extern const csn_route_table csn_routes_snapshots;
extern const csn_route_table csn_routes_toolbox_misc;
extern const csn_route_table csn_routes_volumes;

const csn_route_table *const csn_route_tables[] = {
    &csn_routes_absent,
    &csn_routes_code_run,
    &csn_routes_events,
    &csn_routes_execute,
    &csn_routes_files,
    &csn_routes_files_download,
    &csn_routes_files_upload,
    &csn_routes_git,
    &csn_routes_git_remote,
    &csn_routes_interpreter,
    &csn_routes_keys,
    &csn_routes_lifecycle,
    &csn_routes_lists,
    &csn_routes_misc,
    &csn_routes_organizations,
    &csn_routes_preview,
    &csn_routes_pty,
    &csn_routes_sandboxes,
    &csn_routes_session_logs,
    &csn_routes_sessions,
    &csn_routes_settings,
    &csn_routes_snapshots,
    &csn_routes_toolbox_misc,
    &csn_routes_volumes,
    NULL,
};
