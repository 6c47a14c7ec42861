# Toolchain of `make arm64`: the cross compiler, libraries and emulator that `docker/deps.sh arm64` installs. The emulated
# CPU has every instruction that the emulator knows, so the tests reach all levels of ops/cpu_kernels.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(arm64 "${CMAKE_CURRENT_LIST_DIR}/../.deps/arm64" ABSOLUTE)
set(MR_DEPS ${arm64} CACHE PATH "Folder in which docker/deps.sh put LibTorch and the model")
set(CMAKE_SYSROOT ${arm64}/sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu max -L ${CMAKE_SYSROOT})
