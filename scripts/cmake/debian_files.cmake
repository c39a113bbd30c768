# Runs inside cpack between the installation and the packing: adds what Debian's policy wants of a package's files.
# CPACK_TEMPORARY_INSTALL_DIRECTORY is the folder that becomes /.
set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
set(doc ${tree}/share/doc/culprit)
find_program(gzip gzip REQUIRED)
find_program(strip strip REQUIRED)

function(compress file)
  execute_process(COMMAND ${gzip} --best --no-name --force ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Every Debian has them, because dpkg needs them.
file(REMOVE ${tree}/lib/culprit/libz.so.1 ${tree}/lib/culprit/liblzma.so.5 ${tree}/lib/culprit/libbz2.so.1.0)
# The two programs keep their symbol tables, so that a backtrace of a crash has names of functions.
file(GLOB libraries ${tree}/lib/culprit/*.so.* ${tree}/lib/culprit/demo/driver/*.so.*)
execute_process(COMMAND ${strip} --strip-unneeded ${libraries} COMMAND_ERROR_IS_FATAL ANY)

# Debian's zsh looks in this folder.
file(MAKE_DIRECTORY ${tree}/share/zsh/vendor-completions)
file(RENAME ${tree}/share/zsh/site-functions/_culprit ${tree}/share/zsh/vendor-completions/_culprit)
file(REMOVE_RECURSE ${tree}/share/zsh/site-functions)

# The changes that users read, and the file that Debian's tools read.
file(RENAME ${doc}/CHANGELOG.md ${doc}/NEWS)
compress(${doc}/NEWS)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
file(WRITE ${doc}/changelog "culprit (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: see /usr/share/doc/culprit/NEWS.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
compress(${doc}/changelog)
file(GLOB pages ${tree}/share/man/man*/*)
foreach(page ${pages})
  compress(${page})
endforeach()

# The licences of all parts in one file, as Debian's copyright files are. Debian has the GNU licences once.
file(READ ${doc}/LICENSE text)
file(REMOVE ${doc}/LICENSE)
file(WRITE ${doc}/licences/elfutils "The libraries of elfutils (https://sourceware.org/elfutils/) are under the GNU Lesser General Public License,
version 3 or later, or the GNU General Public License, version 2 or later:
/usr/share/common-licenses/LGPL-3, /usr/share/common-licenses/GPL-2.
")
file(GLOB licences ${doc}/licences/*)
string(PREPEND text "culprit\n=======\n\n")
foreach(licence ${licences})
  get_filename_component(name ${licence} NAME)
  file(READ ${licence} part)
  string(APPEND text "\n\n${name}\n=======\n\n${part}")
endforeach()
file(WRITE ${doc}/copyright "${text}")
file(REMOVE_RECURSE ${doc}/licences)

file(MAKE_DIRECTORY ${tree}/share/lintian/overrides)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lintian-overrides ${tree}/share/lintian/overrides/culprit COPYONLY)
file(GLOB_RECURSE files ${doc}/* ${tree}/share/lintian/*)
file(CHMOD ${files} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
