# What an installation has beside the program and LibTorch: man page, completions, systemd unit, bill of materials,
# licences; and the Debian package of all of it (make deb).

# The program and a script print these files at the installation.
set(printed ${CMAKE_BINARY_DIR}/printed)
file(MAKE_DIRECTORY ${printed})
function(mr_install_output file destination)
    list(JOIN ARGN " " command)
    install(CODE "execute_process(COMMAND ${command} OUTPUT_FILE ${printed}/${file} COMMAND_ERROR_IS_FATAL ANY)")
    install(FILES ${printed}/${file} DESTINATION ${destination})
endfunction()
mr_install_output(millrace.1 share/man/man1 $<TARGET_FILE:millrace> man)
mr_install_output(millrace share/bash-completion/completions $<TARGET_FILE:millrace> completion bash)
mr_install_output(_millrace share/zsh/site-functions $<TARGET_FILE:millrace> completion zsh)
mr_install_output(millrace.fish share/fish/vendor_completions.d $<TARGET_FILE:millrace> completion fish)
mr_install_output(sbom.spdx.json share/doc/millrace ${CMAKE_SOURCE_DIR}/docker/sbom.py $<TARGET_FILE:millrace> $<TARGET_FILE:millrace_torch>)
install(FILES docker/systemd/millrace.service DESTINATION lib/systemd/system)
install(FILES docker/systemd/config.yaml DESTINATION share/doc/millrace) # a sample of /etc/millrace/config.yaml
install(FILES LICENSE DESTINATION share/doc/millrace RENAME copyright)
file(GLOB licences ${MR_DEPS}/libtorch/*.dist-info)
install(DIRECTORY ${licences} DESTINATION share/doc/millrace)

# make deb gives the version.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_CONTACT "The millrace developers <millrace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM inference over Kafka")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${MR_DEPS}/libtorch/torch/lib ${MR_DEPS}/libtorch/nvidia/cu13/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${CMAKE_SOURCE_DIR}/docker/systemd/postinst ${CMAKE_SOURCE_DIR}/docker/systemd/prerm)
include(CPack)
