# Writes OUTPUT, a C++ file that holds COMMON + each script of SCRIPTS as text with its SHA-1.
# cmake -DOUTPUT=… -DFOLDER=… -P embed_lua.cmake
file(READ ${FOLDER}/common.lua common)
file(GLOB scripts ${FOLDER}/*.lua)
list(REMOVE_ITEM scripts ${FOLDER}/common.lua)
set(code "// Made by cmake/embed_lua.cmake from scripts/*.lua.\n#include \"stores/redis/scripts.hpp\"\n\nnamespace stores::redis {\n")
foreach(script IN LISTS scripts)
  cmake_path(GET script STEM verb)
  file(READ ${script} body)
  # Comments stay in the source: the server gets the script in each EVAL, and keeps it.
  set(text "${common}${body}")
  string(REGEX REPLACE "\n *--[^\n]*" "\n" text "\n${text}")
  string(REGEX REPLACE "\n[ \n]*\n" "\n" text "${text}")
  string(SHA1 sha1 "${text}")
  string(APPEND code "\nconst Script ${verb}_script{\"${sha1}\", R\"lua(${text})lua\"};\n")
endforeach()
string(APPEND code "\n}  // namespace stores::redis\n")
file(WRITE ${OUTPUT} "${code}")
