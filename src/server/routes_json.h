/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_SERVER_ROUTES_JSON_H
#define CSN_SERVER_ROUTES_JSON_H

/* Prints the table of routes on stdout, for tests that walk through all of them. 0 or -errno. */
int csn_routes_print(void);

#endif
