/* What every public header needs: linkage and visibility. Copyright: see LICENSE (Apache-2.0). */
#ifndef CAISSON_API_H
#define CAISSON_API_H

#if defined(__GNUC__) || defined(__clang__)
#define CSN_API                     __attribute__((visibility("default")))
#define CSN_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
#else
#define CSN_API
#define CSN_PRINTF(fmt_at, args_at)
#endif

#ifdef __cplusplus
#define CSN_BEGIN_DECLS extern "C" {
#define CSN_END_DECLS   }
#else
#define CSN_BEGIN_DECLS
#define CSN_END_DECLS
#endif

#endif
