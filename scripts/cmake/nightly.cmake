# culprit-nightly: in the build as it is installed, the command in bin/ and its parts in share/culprit/nightly/, so that
# both find their parts, and culprit, in the same way. The parts of the report page that the trend page shares come from
# report/render/html/.
set(culprit_nightly ${PROJECT_SOURCE_DIR}/scripts/nightly)
set(culprit_page ${PROJECT_SOURCE_DIR}/report/render/html)
set(culprit_nightly_files
  ${culprit_nightly}/nightly.py ${culprit_nightly}/history.py ${culprit_nightly}/trend_page.py
  ${culprit_nightly}/printable.py
  ${culprit_nightly}/trend.html ${culprit_nightly}/trend.css ${culprit_nightly}/trend.js ${culprit_nightly}/trend_chart.js
  ${culprit_page}/page_head.html ${culprit_page}/page.css ${culprit_page}/dom.js ${culprit_page}/theme.js ${culprit_page}/format.js
  ${culprit_page}/shell.js ${culprit_page}/tiles.js ${culprit_page}/main.js)

# culprit_nightly_command(FILE BIN DATA): the command that will lie in the folder BIN, for parts below the folder DATA.
function(culprit_nightly_command file bin data)
  file(RELATIVE_PATH culprit_bin_to_nightly ${bin} ${data}/culprit/nightly)
  configure_file(${culprit_nightly}/culprit-nightly.in ${file} @ONLY
                 FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endfunction()

set(culprit_built ${PROJECT_BINARY_DIR}/share/culprit/nightly)
foreach(file ${culprit_nightly_files})
  get_filename_component(name ${file} NAME)
  configure_file(${file} ${culprit_built}/${name} COPYONLY)
endforeach()
configure_file(${CULPRIT_D3} ${culprit_built}/d3.js COPYONLY)
configure_file(${CULPRIT_D3_LICENCE} ${culprit_built}/d3-licence COPYONLY)
culprit_nightly_command(${PROJECT_BINARY_DIR}/bin/culprit-nightly ${PROJECT_BINARY_DIR}/bin ${PROJECT_BINARY_DIR}/share)

culprit_nightly_command(${PROJECT_BINARY_DIR}/installed/culprit-nightly
                        ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR})
install(PROGRAMS ${PROJECT_BINARY_DIR}/installed/culprit-nightly DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${culprit_nightly_files} ${culprit_built}/d3.js ${culprit_built}/d3-licence
        DESTINATION ${CMAKE_INSTALL_DATADIR}/culprit/nightly)
