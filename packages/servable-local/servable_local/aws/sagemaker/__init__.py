"""SageMaker hosting: models, endpoint configurations, and endpoints that serve requests.

moto only keeps records of these, with fixed values and a canned response; the classes here
replace them and start the local container (servable_local/container) for every variant.
"""
