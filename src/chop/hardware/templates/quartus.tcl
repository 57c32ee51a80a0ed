# quartus_sh -t quartus.tcl
load_package flow
project_new `NAME -overwrite
set_global_assignment -name FAMILY "Cyclone V"
set_global_assignment -name DEVICE 5CSEMA5F31C6
set_global_assignment -name TOP_LEVEL_ENTITY `NAME
`SOURCES
set_global_assignment -name SDC_FILE `NAME.sdc
set_global_assignment -name VIRTUAL_PIN ON -to *
execute_flow -compile
project_close
