#!/bin/sh
# What a nosy program finds. Every line should be a refusal or nothing.
# shellcheck disable=SC2002,SC2012 # it is meant to be read
echo "the host's passwords:  $(cat /etc/shadow 2>&1 | head -n 1)"
echo "home directories:      $(ls /home | tr '\n' ' ')"
echo "processes I can see:   $(ls -d /proc/[0-9]* | wc -l) (all mine)"
echo "capabilities:          $(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)"
echo "system call filter:    $(sed -n 's/^Seccomp:[[:space:]]*//p' /proc/self/status) (2 = on)"
echo "network interfaces:    $(sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' ' | tr '\n' ' ')"
echo "change a program:      $(echo x 2>&1 >/usr/bin/env && echo 'written, into my own copy')"
echo "a new namespace:       $(unshare -U true 2>&1)"
