# Runs inside cpack between the installation and the packing: adds what Debian's policy wants of a package's files.
# CPACK_TEMPORARY_INSTALL_DIRECTORY is the folder that becomes /.
set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
set(doc ${tree}/share/doc/culprit)
find_program(gzip gzip REQUIRED)

function(compress file)
  execute_process(COMMAND ${gzip} --best --no-name --force ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
compress(${doc}/changelog)
file(GLOB pages ${tree}/share/man/man*/*)
foreach(page ${pages})
  compress(${page})
endforeach()

# The licences of all parts in one file, as Debian's copyright files are.
file(READ ${doc}/LICENSE text)
file(REMOVE ${doc}/LICENSE)
file(GLOB licences ${doc}/licences/*)
set(text "culprit\n=======\n\n${text}")
foreach(licence ${licences})
  get_filename_component(name ${licence} NAME)
  file(READ ${licence} part)
  string(APPEND text "\n\n${name}\n=======\n\n${part}")
endforeach()
file(WRITE ${doc}/copyright "${text}")
file(REMOVE_RECURSE ${doc}/licences)
file(CHMOD ${doc}/copyright PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

file(MAKE_DIRECTORY ${tree}/share/lintian/overrides)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lintian-overrides ${tree}/share/lintian/overrides/culprit COPYONLY)
