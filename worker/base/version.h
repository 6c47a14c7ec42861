/* version - the version of this program: "0.2.0", or between releases "0.2.0-dev+g78f44c9" with the
 * commit. Letters, digits, points, hyphens and a plus sign. version.c has the version of
 * CMakeLists.txt without the commit, for the tests. The program links a file that docker/version.sh
 * writes at each build instead, so a new commit compiles one file and links one program.
 *
 * Threads: any. */
#ifndef MR_WORKER_BASE_VERSION_H
#define MR_WORKER_BASE_VERSION_H

extern const char mr_version[];

#endif
