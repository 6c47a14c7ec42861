/* version - which millrace this is, such as 0.1.0, or 0.1.0-5-g78f44c9 five commits after that tag:
 * letters, digits, points and hyphens. version.c has the version of CMakeLists.txt, for the tests.
 * The program links in its place a file that docker/version.sh writes at each build, so that a new
 * commit compiles one file and links one program again.
 *
 * Threads: any. */
#ifndef MR_WORKER_BASE_VERSION_H
#define MR_WORKER_BASE_VERSION_H

extern const char mr_version[];

#endif
