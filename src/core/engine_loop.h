/* For a program of this project that has a loop of its own otherwise: its sources hang in the engine's, so that one wait
 * tells of both. Embedders nest csn_engine_fd() instead. */
#ifndef CSN_CORE_ENGINE_LOOP_H
#define CSN_CORE_ENGINE_LOOP_H

#include <caisson/engine.h>

#include "base/loop.h"

csn_loop *csn_engine_loop(csn_engine *engine); /* borrowed: it goes with the engine */

#endif
