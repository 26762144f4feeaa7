/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSN_KERN_TEST_CONFINED_H
#define CSN_KERN_TEST_CONFINED_H

/* For tests that confine their own process: the leak checker, which reads /proc and traces when a
 * process ends, can't work there. Address and undefined behaviour checks stay on. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

#endif
